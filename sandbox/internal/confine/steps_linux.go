package confine

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// KindOf returns the filter for a plan that is enforced as Confined.
func KindOf(p *Plan) seccomp.Kind {
	abi := Kernel().ABI
	k := seccomp.Kind{Unix: abi >= resolveUnix, Metadata: !p.Writes(), Truncate: abi < truncate, Shared: true}
	if p.Network {
		k.Network = seccomp.On
	}
	return k
}

// The first versions of Landlock with rights to truncate and to connect to unix sockets by their paths.
const (
	truncate    = 3
	resolveUnix = 9
)

// Filter gives this thread a filter, for its children to inherit: to install one would take each of them as long as everything else
// together. The calling goroutine must be locked to the thread, for good. The children show the secret, and make the steps of Born.
func Filter(kind seccomp.Kind) (birth.Secret, error) {
	secret, err := birth.NewSecret()
	if err != nil {
		return birth.Secret{}, err
	}
	kind.Secret = secret
	filter := seccomp.Filter(kind)
	if filter == nil {
		return birth.Secret{}, unix.ENOSYS
	}
	if mayDropBounding() {
		for capability := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0) == nil; capability++ {
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return birth.Secret{}, err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return birth.Secret{}, errno
	}
	return secret, nil
}

// Born returns the steps of a child of a thread with a filter, with a rule set of this process.
func Born(ruleset int) []birth.Step {
	return []birth.Step{birth.SetCapabilities(birth.Capabilities{}), birth.Landlock(ruleset, 0)}
}

// Alone returns the steps of a child of any other thread: it installs the filter itself, which takes longer.
func Alone(ruleset int, kind seccomp.Kind) (steps []birth.Step) {
	if mayDropBounding() {
		steps = birth.DropBounding(0)
	}
	return append(steps, birth.SetCapabilities(birth.Capabilities{}), birth.NoNewPrivs(), birth.Landlock(ruleset, 0), birth.Seccomp(seccomp.Filter(kind)))
}

// mayDropBounding reports whether this thread may empty its capability bounding set. A thread that may not do so has no need to:
// without new privileges an execution grants nothing.
func mayDropBounding() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SETPCAP) != 0
}

// Filters returns zero if the kernel supports filters of system calls, and otherwise the errno that says why not.
var Filters = sync.OnceValue(func() unix.Errno {
	if seccomp.Filter(seccomp.Kind{}) == nil {
		return unix.ENOSYS
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno
})
