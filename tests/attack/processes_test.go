//go:build linux

package attack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/proc"
)

// victim starts a process of the same user, outside. Attacks by signals win if it dies.
func victim(s *scene) {
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"SECRET=untouched"}
	must(s, cmd.Start())
	s.Victim = cmd.Process.Pid
	gone := make(ear)
	go func() { _ = cmd.Wait(); close(gone) }()
	s.killed = gone.heard
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
	})
}

// sibling starts a command of another session under the same policy. It is confined as far as the machine allows, so even an attack
// without a sandbox is an attack on a confined command.
func sibling(s *scene) {
	session, err := s.rt.OpenSession(execbus.SessionOptions{Dir: s.Work, Sandbox: &s.policy, LeastAssurance: messages.AssuranceNone})
	must(s, err)
	s.Cleanup(func() { must(s, session.Close(context.Background())) })
	_, err = session.Start(s.Context(), messages.ExecCommand{Argv: []string{"sleep", "1000"}})
	must(s, err)
	list, err := session.List(s.Context())
	must(s, err)
	s.Victim = list[0].PID
	s.killed = func() bool {
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if state := proc.Look(s.Victim).State; state == 0 || state == 'Z' {
				return true
			}
		}
		return false
	}
}

func killed(s *scene) bool { return s.killed() }

const visible = "without a pid namespace a command sees the numbers of other processes and of their descriptors, but not what they are"

// signals is the first version of Landlock that restricts signals.
const signals = 6

// otherProcesses are attempts on processes that do not belong to the command.
func otherProcesses() []attack {
	var list []attack
	for name, act := range map[string]func(pid int) error{
		"ptrace":            func(pid int) error { return unix.PtraceAttach(pid) },
		"ptrace by seizing": func(pid int) error { return unix.PtraceSeize(pid) },
		"read its memory": func(pid int) error {
			local := make([]byte, 8)
			_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &local[0], Len: 8}}, []unix.RemoteIovec{{Base: mapped(pid), Len: 8}}, 0)
			return err
		},
		"write its memory": func(pid int) error {
			local := make([]byte, 8)
			_, err := unix.ProcessVMWritev(pid, []unix.Iovec{{Base: &local[0], Len: 8}}, []unix.RemoteIovec{{Base: stack(pid), Len: 8}}, 0)
			return err
		},
		"open its memory":         opening("mem", os.O_RDWR),
		"read its environment":    opening("environ", os.O_RDONLY),
		"list its descriptors":    listing("fd"),
		"follow its descriptor":   following("fd/0"),
		"read its maps":           opening("maps", os.O_RDONLY),
		"follow its directory":    following("cwd"),
		"follow its root":         following("root"),
		"follow its program":      following("exe"),
		"read its system call":    opening("syscall", os.O_RDONLY),
		"change its badness":      opening("oom_score_adj", os.O_WRONLY),
		"change its core filter":  opening("coredump_filter", os.O_WRONLY),
		"change its user map":     opening("uid_map", os.O_WRONLY),
		"take its descriptor":     takeDescriptor,
		"compare its descriptors": func(pid int) error { return kcmp(pid) },
		"change its limits": func(pid int) error {
			return unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
		},
		"read its limits": func(pid int) error { var l unix.Rlimit; return unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &l) },
		"bind it to a processor": func(pid int) error {
			var set unix.CPUSet
			set.Set(0)
			return unix.SchedSetaffinity(pid, &set)
		},
		"change its priority": func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) },
		"change its scheduling": func(pid int) error {
			return unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}, 0)
		},
		"change its input priority": func(pid int) error {
			return asError(unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 3<<13))
		},
		"enter its namespaces": func(pid int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWUTS)
		},
		"migrate its pages": func(pid int) error {
			mask := uint64(1)
			return asError(unix.Syscall6(unix.SYS_MIGRATE_PAGES, uintptr(pid), 64, uintptr(unsafe.Pointer(&mask)), uintptr(unsafe.Pointer(&mask)), 0, 0))
		},
	} {
		except := ""
		if name == "list its descriptors" {
			except = visible
		}
		for whom, pid := range map[string]func(places) int{
			"a victim": func(p places) int { return p.Victim }, "the host": func(p places) int { return p.Host },
		} {
			a := attack{name: "process: " + name + ", " + whom, except: except, setup: victim, act: func(p places) error { return act(pid(p)) }}
			a.unsafe = whom != "a victim"
			list = append(list, a)
		}
		list = append(list, attack{name: "process: " + name + ", another session's command", except: except, setup: sibling,
			act: func(p places) error { return act(p.Victim) }})
		list = append(list, attack{name: "process: " + name + ", the parent", except: except, unsafe: true, setup: victim, act: func(places) error {
			parent := os.Getppid()
			if parent <= 1 { // it is pid 1 of the command's own namespace, and protected like the host
				parent = 1
			}
			return act(parent)
		}})
	}
	for name, act := range map[string]func(pid int) error{
		"kill":          func(pid int) error { return unix.Kill(pid, unix.SIGKILL) },
		"kill a thread": func(pid int) error { return unix.Tgkill(pid, pid, unix.SIGKILL) },
		"tkill": func(pid int) error {
			return asError(unix.Syscall(unix.SYS_TKILL, uintptr(pid), uintptr(unix.SIGKILL), 0))
		},
		"kill by a descriptor": func(pid int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		},
		"queue a signal": func(pid int) error {
			var info [128]byte
			*(*int32)(unsafe.Pointer(&info[0])) = int32(unix.SIGKILL)
			*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
			return asError(unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGKILL), uintptr(unsafe.Pointer(&info))))
		},
		"kill by an owner of input": func(pid int) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			if _, err := unix.FcntlInt(uintptr(pair[0]), unix.F_SETOWN, pid); err != nil {
				return err
			}
			if _, err := unix.FcntlInt(uintptr(pair[0]), unix.F_SETSIG, int(unix.SIGKILL)); err != nil {
				return err
			}
			if _, err := unix.FcntlInt(uintptr(pair[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK); err != nil {
				return err
			}
			_, err = unix.Write(pair[1], []byte("x"))
			return err
		},
	} {
		list = append(list, attack{name: "signal: " + name, since: signals, setup: victim,
			act: func(p places) error { return act(p.Victim) }, won: killed},
			attack{name: "signal: " + name + ", another session's command", since: signals, setup: sibling,
				act: func(p places) error { return act(p.Victim) }, won: killed})
	}
	for _, whom := range []string{"host", "parent"} {
		list = append(list, attack{name: "signal: ask about the " + whom, since: signals, unsafe: true, act: func(p places) error {
			pid := p.Host
			if whom == "parent" {
				if pid = os.Getppid(); pid <= 1 {
					return errHeld
				}
			}
			return unix.Kill(pid, 0)
		}})
	}
	return list
}

func opening(name string, flags int) func(pid int) error {
	return func(pid int) error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, name), flags, 0)
		if err != nil {
			return err
		}
		if flags == os.O_RDONLY {
			if n, err := f.Read(make([]byte, 64)); err != nil || n == 0 {
				return fmt.Errorf("nothing to read: %v", err)
			}
		}
		return nil
	}
}

func listing(name string) func(pid int) error {
	return func(pid int) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, name)); return err }
}

func following(name string) func(pid int) error {
	return func(pid int) error { _, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name)); return err }
}

// mapped returns an address of a process: one of its program if that can be read, or else one that every address space may have.
func mapped(pid int) uintptr { return mapping(pid, "/") }

func stack(pid int) uintptr { return mapping(pid, "[stack]") }

func mapping(pid int, of string) uintptr {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.SplitSeq(string(text), "\n") {
		var from uintptr
		if _, err := fmt.Sscanf(line, "%x-", &from); err == nil && strings.Contains(line, of) {
			return from + 4096*uintptr(len(of)/7) // the first page of a stack may not be there
		}
	}
	return 0x400000
}

func takeDescriptor(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

func kcmp(pid int) error {
	return asError(unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), 1, 0, 0, 0))
}
