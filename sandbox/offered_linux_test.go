package sandbox_test

import (
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// Many tests skip themselves if this package says that the machine cannot do something. This test asks the kernel by other means, so
// that a defect of this package does not make all of them skip.
func TestWhatTheKernelOffersIsUsed(t *testing.T) {
	offered, why := offered()
	t.Logf("the kernel offers what is needed for %q: %s", offered, why)
	if probed := sandbox.Probe(); !probed.Level.AtLeast(offered) {
		t.Errorf("the strongest level is %q; the kernel offers what is needed for %q: %+v", probed.Level, offered, probed.Mechanisms)
	}
	for _, c := range []struct {
		level   messages.Assurance
		options sandbox.Options
	}{{messages.AssuranceConfined, sandbox.Options{Direct: true}}, {messages.AssuranceConfined, sandbox.Options{WithoutNamespaces: true}}, {messages.AssuranceIsolated, sandbox.Options{}}} {
		if !offered.AtLeast(c.level) {
			continue
		}
		spawner := newSpawner(t, c.options)
		for _, network := range []bool{false, true} {
			confinement := workspace(t.TempDir())
			confinement.Least, confinement.Policy.NetworkAccess = c.level, network
			e, err := spawner.Enclose(t.Context(), confinement)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Release()
			if _, err := spawner.Can(ptyio.Launch{Sandbox: e}); err != nil {
				t.Errorf("%+v, network %v: %v", c.options, network, err)
			}
		}
	}
}

// offered returns the level that the kernel makes possible, and what else was asked for the next one.
func offered() (messages.Assurance, string) {
	var available uint32 = unix.SECCOMP_RET_ERRNO
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&available))); errno != 0 {
		return messages.AssuranceNone, "no seccomp: " + errno.Error()
	}
	unshare := []string{"--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--mount-proc"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	out, err := exec.Command("unshare", append(unshare, "mount", "-t", "tmpfs", "none", "/dev/shm")...).CombinedOutput()
	if err == nil {
		return messages.AssuranceIsolated, "unshare works"
	}
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); errno != 0 {
		return messages.AssuranceNone, "no Landlock: " + errno.Error()
	}
	return messages.AssuranceConfined, "unshare: " + string(out) + err.Error()
}
