package birth

import (
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func wantPIDFD(sys *syscall.SysProcAttr, pidfd *int) { sys.PidFD = pidfd }

// System is any system call with numbers for arguments.
func System(name string, call uintptr, args ...uintptr) Step {
	return step(name, call, numbers(args)...)
}

func step(name string, number uintptr, args ...operand) Step {
	return Step{Name: name, call: call{number: number, args: args}}
}

func numbers(args []uintptr) []operand {
	all := make([]operand, len(args))
	for i, arg := range args {
		all[i] = number(arg)
	}
	return all
}

func (s Step) or(plain func(*plain)) Step {
	s.plain = plain
	return s
}

// Setsid makes a session of its own.
func Setsid() Step { return System("setsid", unix.SYS_SETSID).or(setsid) }

// ControllingTTY gives the session a terminal: the descriptor of that number, after Files.
func ControllingTTY(fd int) Step {
	return System("controlling terminal", unix.SYS_IOCTL, uintptr(fd), unix.TIOCSCTTY, 1).or(controllingTTY(fd))
}

// Rlimit sets one of the limits. If no step sets the limit of open files, it is restored last of all to the value that this
// process began with: Go has raised it.
func Rlimit(resource int, soft, hard uint64) Step {
	return step(limitName(resource), unix.SYS_PRLIMIT64, number(0), number(resource), values{soft, hard}, number(0))
}

// Showing adds two arguments to a call of at most four, as the fifth and the sixth. The kernel ignores them, but a filter may check them.
func (s Step) Showing(secret Secret) Step {
	args := []operand{number(0), number(0), number(0), number(0), number(secret[0]), number(secret[1])}
	copy(args, s.call.args)
	s.call.args = args
	return s
}

// Join moves the process into a control group. The descriptor is that group's cgroup.procs.
func Join(fd int) Step {
	return step("control group", unix.SYS_WRITE, number(fd), text("0"), number(1))
}

// Try is a step that may fail. syscall.ForkExec leaves it out.
func Try(s Step) Step {
	s.call.rule = mayFail
	return s.or(func(*plain) {})
}

func limitName(resource int) string {
	if resource >= 0 && resource < len(limitNames) {
		return limitNames[resource]
	}
	return "limit " + strconv.Itoa(resource)
}

// limitNames are the names of all limits that Linux has. Every birth sets two or three.
var limitNames = [...]string{"limit 0", "limit 1", "limit 2", "limit 3", "limit 4", "limit 5", "limit 6", "limit 7", "limit 8",
	"limit 9", "limit 10", "limit 11", "limit 12", "limit 13", "limit 14", "limit 15"}

// DeathSignal makes the process get a signal when the thread that begins it ends. It must come after Credentials, which
// resets it. It fails if the parent has already ended.
func DeathSignal(signal syscall.Signal) []Step {
	parent := System("parent-death signal: parent", unix.SYS_GETPPID)
	parent.call.rule, parent.call.want = mustBe, uint64(syscall.Getpid())
	set := Prctl("parent-death signal", unix.PR_SET_PDEATHSIG, uintptr(signal))
	return []Step{
		set.or(func(p *plain) { p.attr.Sys.Pdeathsig = signal }),
		parent.or(func(*plain) {}), // ForkExec checks this, too
	}
}

// Prctl is any prctl with numbers for arguments.
func Prctl(name string, option uintptr, args ...uintptr) Step {
	all := make([]uintptr, 5) // some options insist on zeros
	all[0] = option
	copy(all[1:], args)
	return System(name, unix.SYS_PRCTL, all...)
}

// NoNewPrivs stops set-uid programs and file capabilities from granting the process privileges. Landlock and Seccomp need it or
// CAP_SYS_ADMIN.
func NoNewPrivs() Step { return Prctl("no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1) }

// Capabilities are sets of capabilities, a bit for each.
type Capabilities struct{ Effective, Permitted, Inheritable uint64 }

// SetCapabilities sets the capabilities. The kernel also takes from the ambient set what is no longer permitted and inheritable.
func SetCapabilities(c Capabilities) Step {
	head := values{unix.LINUX_CAPABILITY_VERSION_3} // and pid 0
	low := func(set uint64) uint64 { return set & 0xffffffff }
	data := values{
		low(c.Effective) | low(c.Permitted)<<32, low(c.Inheritable) | low(c.Effective>>32)<<32,
		low(c.Permitted>>32) | low(c.Inheritable>>32)<<32,
	}
	return step("capabilities", unix.SYS_CAPSET, head, data)
}

// DropBounding drops all capabilities but those in keep from the bounding set. It needs CAP_SETPCAP, so it comes before
// SetCapabilities and Credentials.
func DropBounding(keep uint64) (steps []Step) {
	for capability := uintptr(0); capability < 64; capability++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0); err != nil {
			return steps // the kernel knows no more
		}
		if keep&(1<<capability) == 0 {
			steps = append(steps, Prctl("drop capability "+strconv.Itoa(int(capability)), unix.PR_CAPBSET_DROP, capability))
		}
	}
	return steps
}

// Landlock puts the process into a domain of its own. The descriptor is that of a rule set.
func Landlock(ruleset int, flags uint) Step {
	return System("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), uintptr(flags))
}

// Seccomp sets a filter for the process. It must allow the steps that follow, rt_sigprocmask, prlimit64 and exit_group.
func Seccomp(filter []unix.SockFilter) Step {
	return step("seccomp", unix.SYS_SECCOMP, number(unix.SECCOMP_SET_MODE_FILTER), number(0), program(slices.Clone(filter)))
}

// Listen sets a filter, too, and its result is the descriptor of a listener, to which the kernel reports the calls that the filter does not
// decide itself. A caller that the listener has seen waits until it is answered, and only a signal that ends it can end the wait. It
// needs Linux 5.19.
func Listen(filter []unix.SockFilter) Step {
	return step("seccomp listener", unix.SYS_SECCOMP, number(unix.SECCOMP_SET_MODE_FILTER),
		number(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), program(slices.Clone(filter)))
}

// CloseRange closes the descriptors in the range. It needs Linux 5.9.
func CloseRange(first, last uint) Step {
	return System("close_range", unix.SYS_CLOSE_RANGE, uintptr(first), uintptr(last), 0)
}

// Chdir changes the directory.
func Chdir(path string) Step {
	return step("chdir", unix.SYS_CHDIR, text(path)).or(chdir(path))
}

// Fchdir changes to the directory that a descriptor refers to.
func Fchdir(fd int) Step { return System("fchdir", unix.SYS_FCHDIR, uintptr(fd)) }

// Credentials makes the process run as another user. Until the execution it shares memory with a privileged parent; the kernel
// protects that memory by making it undumpable, so the parent becomes undumpable, too.
func Credentials(uid, gid uint32, groups []uint32) []Step {
	list := make(values, (len(groups)+1)/2)
	for i, group := range groups {
		list[i/2] |= uint64(group) << (i % 2 * 32)
	}
	return []Step{
		step("setgroups", unix.SYS_SETGROUPS, number(len(groups)), list),
		System("setresgid", unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)),
		System("setresuid", unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)),
	}
}

// Execve executes the program. It is the last step.
func Execve(path string, argv, env []string) Step {
	return step("execve", unix.SYS_EXECVE, text(path), list(argv), list(env)).or(execute(path, argv, env))
}

// ExecveAt executes the program that a descriptor refers to, or one in the directory that it refers to. It is the last step.
func ExecveAt(fd int, path string, argv, env []string, flags int) Step {
	return step("execveat", unix.SYS_EXECVEAT, number(fd), text(path), list(argv), list(env), number(flags))
}
