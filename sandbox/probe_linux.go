package sandbox

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/cgroup"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/isolate"
	"github.com/execbus/execbus/sandbox/internal/paths"
)

// Probe tries once what can be enforced here; later calls return the same value, which must not be changed. It is safe for
// concurrent use.
func Probe() Probed { return probed() }

var probed = sync.OnceValue(func() Probed {
	p := Probed{Level: messages.AssuranceNone, Mechanisms: []Mechanism{probeNamespaces(), probeLandlock(), probeSeccomp()}}
	switch {
	case p.Mechanisms[0].Works:
		p.Level = messages.AssuranceIsolated
	case unconfinable() == nil:
		p.Level = messages.AssuranceConfined
	}
	p.Mechanisms = append(p.Mechanisms, probeHosts(p.Mechanisms[0]), probeExecutions())
	for _, limit := range []struct {
		limit    messages.Limit
		enforces string
	}{{messages.LimitProcesses, "a limit for processes"}, {messages.LimitMemory, "a limit for memory"}, {messages.LimitCPUTime, "a limit for CPU time"}} {
		p.Mechanisms = append(p.Mechanisms, probeGroup(limit.limit, limit.enforces))
	}
	if !cgroup.Enforces(messages.LimitProcesses) {
		p.Mechanisms = append(p.Mechanisms, probeTasks())
	}
	return p
})

// probeTasks tries the mechanism that limits processes if no control group does.
func probeTasks() Mechanism {
	m := Mechanism{Name: "pid_max of a namespace", Enforces: "a limit for the processes of isolated commands, up to 300 too many", Works: true}
	if err := isolate.ProbeTasks(); err != nil {
		m.Works, m.Why, m.Change = false, "the kernel refuses it: "+err.Error(), "use Linux 6.14 or newer, with user namespaces, or delegate a control group"
	}
	return m
}

func probeNamespaces() Mechanism {
	m := Mechanism{Name: "namespaces", Enforces: "protected names, denied reads, hiding of other processes"}
	if why := (&enclosure{spawner: &spawner{}, Found: &paths.Found{}}).unisolatable(); why != nil {
		m.Why, m.Change = why.Why, namespacesAdvice()
		if born := unborn(); born != nil {
			m.Why, m.Change = born.Why, "use a machine of this architecture"
		}
		return m
	}
	m.Works = true
	return m
}

// probeHosts tries what commands that may talk to named hosts take: a network of their own, in which the proxy listens.
func probeHosts(namespaces Mechanism) Mechanism {
	m := Mechanism{Name: "listener", Enforces: "named hosts: commands talk to these and to no other"}
	if !namespaces.Works {
		m.Why, m.Change = "it takes namespaces: "+namespaces.Why, namespaces.Change
	} else if err := isolate.ProbeListener(); err != nil {
		m.Why, m.Change = "the kernel refuses it: "+err.Error(), "let programs make network namespaces"
	} else {
		m.Works = true
	}
	return m
}

// probeExecutions tries what rules about programs take that hold for everything which a command executes.
func probeExecutions() Mechanism {
	m := Mechanism{Name: "seccomp listener", Enforces: "rules for the programs that commands execute", Why: unseeable()}
	if m.Works = m.Why == ""; !m.Works {
		m.Change = "use Linux 5.19 or newer, outside of other such sandboxes, with kernel.yama.ptrace_scope at most 1"
	}
	return m
}

func probeLandlock() Mechanism {
	m := Mechanism{Name: "landlock", Enforces: "which files can be written, signals to other processes"}
	kernel := confine.Kernel()
	born := unborn()
	switch {
	case born != nil:
		m.Why, m.Change = born.Why, "use a machine of this architecture"
	case kernel.ABI == 0:
		m.Why, m.Change = "the kernel refuses it: "+kernel.Errno.Error(), "use Linux 5.13 or newer with landlock among its security modules (lsm=landlock,…)"
	case kernel.ABI < signals || kernel.SignalsUnsound:
		m.Works, m.Why, m.Change = true, fmt.Sprintf("it is version %d, which does not stop signals to other processes", kernel.ABI), "use Linux 6.12 or newer"
	case kernel.ABI < unixSockets:
		m.Works, m.Why, m.Change = true, fmt.Sprintf("it is version %d, and unix sockets need version %d, so commands can use none", kernel.ABI, unixSockets), "use a newer kernel if commands need unix sockets"
	default:
		m.Works = true
	}
	return m
}

func probeSeccomp() Mechanism {
	m := Mechanism{Name: "seccomp", Enforces: "the network, dangerous system calls"}
	if errno := confine.Filters(); errno != 0 {
		m.Why, m.Change = "the kernel refuses filters: "+errno.Error(), "use a kernel with CONFIG_SECCOMP_FILTER, on amd64 or arm64"
		return m
	}
	m.Works = true
	return m
}

func probeGroup(limit messages.Limit, enforces string) Mechanism {
	m := Mechanism{Name: "control groups", Enforces: enforces, Works: cgroup.Enforces(limit)}
	if !m.Works {
		m.Why, m.Change = "this process cannot create one", "delegate a control group to it, as systemd-run --user -p Delegate=yes does"
	}
	return m
}

// namespacesAdvice says what would let this process have namespaces. It goes by what is usually in the way: a bound of the system, or a
// container runtime.
func namespacesAdvice() string {
	for _, setting := range []struct{ name, refuses, allows string }{
		{"user.max_user_namespaces", "0", "10000"},
		{"kernel.unprivileged_userns_clone", "0", "1"},             // Debian's kernels
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"}, // Ubuntu's from 23.10 on
	} {
		value, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(setting.name, ".", "/"))
		if err == nil && strings.TrimSpace(string(value)) == setting.refuses && (os.Geteuid() != 0 || setting.name == "user.max_user_namespaces") {
			return "sudo sysctl -w " + setting.name + "=" + setting.allows
		}
	}
	if inContainer() {
		return "in Docker and Podman: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined; " +
			"in Kubernetes: hostUsers: false, procMount: Unmasked, seccompProfile and appArmorProfile of type: Unconfined"
	}
	return "let this user create user namespaces (user.max_user_namespaces, AppArmor, a filter), or accept confined where that is enough"
}

// inContainer reports whether a container runtime has started this process: it leaves a file, or its filter and its masks.
func inContainer() bool {
	for _, file := range []string{"/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io"} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(mounts), " /proc/kcore ")
}
