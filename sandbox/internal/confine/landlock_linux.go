package confine

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newestABI is the latest version of Landlock that is known here. Newer kernels support it, too.
const newestABI = 10

// signalErratum is set by kernels with a fix: without it, a signal between two threads of one process can be refused.
const signalErratum = 1 << (2 - 1)

// Landlock describes the kernel's support for Landlock.
type Landlock struct {
	ABI int // zero for none
	// SignalsUnsound says that the scope of signals has a known defect here.
	SignalsUnsound bool
	Errno          unix.Errno // why there is none
}

// Kernel asks the kernel, once.
var Kernel = sync.OnceValue(func() Landlock {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return Landlock{Errno: errno}
	}
	errata, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
	return Landlock{ABI: min(int(abi), newestABI), SignalsUnsound: errno != 0 || errata&signalErratum == 0}
})

// Rights to files.
const (
	readFile  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	readAll   = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV |
		unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	changeDirectory = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_REFER
	allFiles = readAll | writeFile | changeDirectory
)

// handled returns what a rule set of this ABI denies where no rule allows it.
func handled(abi int, network bool) (attr ruleset, size uintptr) {
	attr.files = allFiles
	for _, since := range []struct {
		abi   int
		right uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {truncate, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
		{resolveUnix, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX}} {
		if abi < since.abi {
			attr.files &^= since.right
		}
	}
	size = 8
	if abi >= 4 {
		size = 16
		if !network {
			attr.network = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if abi >= 6 {
		size = 24
		attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if abi >= 10 && !network {
		attr.network |= unix.LANDLOCK_ACCESS_NET_BIND_UDP | unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP
	}
	return attr, size
}

// Handled returns the landlock_ruleset_attr of a domain that leaves the network alone, as words, in the size that this ABI
// knows.
func Handled(abi int) []uint64 {
	attr, size := handled(abi, true)
	return []uint64{attr.files, attr.network, attr.scoped}[:size/8]
}

// ruleset is landlock_ruleset_attr.
type ruleset struct{ files, network, scoped uint64 }

// Allowed is a set of rights below a descriptor, which may be O_PATH.
type Allowed struct {
	FD     int
	Rights Rights
}

// Rights are the rights that a rule can give.
type Rights uint64

// Sets of rights. A set for directories is for directories only.
const (
	List          Rights = unix.LANDLOCK_ACCESS_FS_READ_DIR
	ReadFile      Rights = readFile
	ReadDirectory Rights = readAll
	// UseDevice allows reading, writing and controlling a device.
	UseDevice      Rights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	WriteFile      Rights = readFile | writeFile
	WriteDirectory Rights = allFiles
	// Connect allows connecting to a unix socket.
	Connect Rights = unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// Ruleset makes a rule set that handles everything an ABI knows, with these rules. The caller owns the descriptor; several
// births can use it.
func Ruleset(abi int, network bool, rules []Allowed) (fd int, err error) {
	attr, size := handled(abi, network)
	made, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, errno
	}
	for _, rule := range rules {
		rule.Rights &= Rights(attr.files)
		if err := Allow(int(made), rule); err != nil {
			_ = unix.Close(int(made))
			return -1, err
		}
	}
	return int(made), nil
}

// Allow adds a rule with those of its rights that the rule set handles. It leaves out rights that the kernel does not know.
func Allow(ruleset int, rule Allowed) error {
	attr, _ := handled(Kernel().ABI, false)
	var beneath struct { // the kernel's struct is packed, so it ends after 12 bytes
		rights uint64
		parent int32
		_      int32
	}
	beneath.rights, beneath.parent = uint64(rule.Rights)&attr.files, int32(rule.FD)
	if beneath.rights == 0 {
		return nil
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
