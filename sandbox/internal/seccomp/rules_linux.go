//go:build amd64 || arm64

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Rule denies a system call if all conditions hold.
type Rule struct {
	Name  string
	Call  uint32
	When  []Condition
	Errno unix.Errno
}

// Condition is about one argument. Like the kernel, the filter looks only at the lower 32 bits of most arguments.
type Condition struct {
	Arg  int
	Mask uint32 // of the lower half; zero for all of it
	Want uint32 // what the masked half must be
	Not  bool   // or must not be
	// Pointer wants an argument other than zero, of 64 bits, and nothing else.
	Pointer bool
}

func is(arg int, want uint32) Condition           { return Condition{Arg: arg, Want: want} }
func isNot(arg int, want uint32) Condition        { return Condition{Arg: arg, Want: want, Not: true} }
func masked(arg int, mask, want uint32) Condition { return Condition{Arg: arg, Mask: mask, Want: want} }
func maskedNot(arg int, mask, want uint32) Condition {
	return Condition{Arg: arg, Mask: mask, Want: want, Not: true}
}
func anyOf(arg int, bits uint32) Condition { return maskedNot(arg, bits, 0) }
func pointer(arg int) Condition            { return Condition{Arg: arg, Pointer: true} }

// Rules returns the calls that a kind denies. Of several rules for one call the first that holds decides.
func Rules(k Kind) []Rule {
	rules := slices.Concat(always, alwaysHere, ours(k), sockets(k), setID, setIDHere)
	if k.Metadata {
		rules = slices.Concat(rules, metadata, metadataHere)
	}
	if k.Shared {
		rules = slices.Concat(rules, shared)
	}
	if k.Truncate {
		rules = slices.Concat(rules, truncation, truncationHere)
	}
	return rules
}

func deny(name string, call uint32, when ...Condition) Rule {
	return Rule{Name: name, Call: call, When: when, Errno: unix.EPERM}
}

func missing(name string, call uint32) Rule { return Rule{Name: name, Call: call, Errno: unix.ENOSYS} }

// namespaces are the flags of new ones; CLONE_NEWTIME belongs to the exit signal in clone.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// always holds for every kind, on every architecture.
var always = []Rule{
	// Other processes' memory and descriptors.
	deny("ptrace", unix.SYS_PTRACE),
	deny("process_vm_readv", unix.SYS_PROCESS_VM_READV),
	deny("process_vm_writev", unix.SYS_PROCESS_VM_WRITEV),
	deny("process_madvise", unix.SYS_PROCESS_MADVISE),
	deny("pidfd_getfd", unix.SYS_PIDFD_GETFD),
	deny("kcmp", unix.SYS_KCMP),
	// Other processes' limits and scheduling. The limits that mark trees have rules of their own; see marks.
	deny("prlimit64 of another", unix.SYS_PRLIMIT64, isNot(0, 0)),
	deny("setrlimit RLIMIT_RTTIME", unix.SYS_SETRLIMIT, is(0, unix.RLIMIT_RTTIME)),
	deny("setrlimit RLIMIT_LOCKS", unix.SYS_SETRLIMIT, is(0, unix.RLIMIT_LOCKS)),
	deny("sched_setaffinity of another", unix.SYS_SCHED_SETAFFINITY, isNot(0, 0)),
	deny("sched_setscheduler of another", unix.SYS_SCHED_SETSCHEDULER, isNot(0, 0)),
	deny("sched_setparam of another", unix.SYS_SCHED_SETPARAM, isNot(0, 0)),
	deny("sched_setattr of another", unix.SYS_SCHED_SETATTR, isNot(0, 0)),
	deny("setpriority of another", unix.SYS_SETPRIORITY, isNot(1, 0)),
	deny("setpriority of a group or user", unix.SYS_SETPRIORITY, isNot(0, unix.PRIO_PROCESS)),
	deny("ioprio_set of another", unix.SYS_IOPRIO_SET, isNot(1, 0)),
	deny("ioprio_set of a group or user", unix.SYS_IOPRIO_SET, isNot(0, 1)), // IOPRIO_WHO_PROCESS
	// Ways around the filter, and large parts of the kernel.
	deny("io_uring_setup", unix.SYS_IO_URING_SETUP),
	deny("io_uring_enter", unix.SYS_IO_URING_ENTER),
	deny("io_uring_register", unix.SYS_IO_URING_REGISTER),
	deny("bpf", unix.SYS_BPF),
	deny("perf_event_open", unix.SYS_PERF_EVENT_OPEN),
	deny("userfaultfd", unix.SYS_USERFAULTFD),
	deny("fanotify_init", unix.SYS_FANOTIFY_INIT),
	deny("lookup_dcookie", unix.SYS_LOOKUP_DCOOKIE),
	deny("nfsservctl", unix.SYS_NFSSERVCTL),
	deny("syslog", unix.SYS_SYSLOG),
	// Keys are the user's.
	deny("add_key", unix.SYS_ADD_KEY),
	deny("request_key", unix.SYS_REQUEST_KEY),
	deny("keyctl", unix.SYS_KEYCTL),
	// Mounts, and ways to open files without going through them.
	deny("mount", unix.SYS_MOUNT),
	deny("umount2", unix.SYS_UMOUNT2),
	deny("move_mount", unix.SYS_MOVE_MOUNT),
	deny("open_tree", unix.SYS_OPEN_TREE),
	deny("open_tree_attr", unix.SYS_OPEN_TREE_ATTR),
	deny("fsopen", unix.SYS_FSOPEN),
	deny("fsconfig", unix.SYS_FSCONFIG),
	deny("fsmount", unix.SYS_FSMOUNT),
	deny("fspick", unix.SYS_FSPICK),
	deny("mount_setattr", unix.SYS_MOUNT_SETATTR),
	deny("pivot_root", unix.SYS_PIVOT_ROOT),
	deny("chroot", unix.SYS_CHROOT),
	deny("open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT),
	// Namespaces.
	deny("unshare of a namespace", unix.SYS_UNSHARE, anyOf(0, namespaces|unix.CLONE_NEWTIME)),
	deny("setns", unix.SYS_SETNS),
	deny("clone into a namespace", unix.SYS_CLONE, anyOf(0, namespaces)),
	missing("clone3", unix.SYS_CLONE3), // a filter cannot see its flags
	// The machine.
	deny("init_module", unix.SYS_INIT_MODULE),
	deny("finit_module", unix.SYS_FINIT_MODULE),
	deny("delete_module", unix.SYS_DELETE_MODULE),
	deny("kexec_load", unix.SYS_KEXEC_LOAD),
	deny("kexec_file_load", unix.SYS_KEXEC_FILE_LOAD),
	deny("reboot", unix.SYS_REBOOT),
	deny("swapon", unix.SYS_SWAPON),
	deny("swapoff", unix.SYS_SWAPOFF),
	deny("acct", unix.SYS_ACCT),
	deny("quotactl", unix.SYS_QUOTACTL),
	deny("quotactl_fd", unix.SYS_QUOTACTL_FD),
	deny("clock_settime", unix.SYS_CLOCK_SETTIME),
	deny("clock_adjtime", unix.SYS_CLOCK_ADJTIME),
	deny("settimeofday", unix.SYS_SETTIMEOFDAY),
	deny("adjtimex", unix.SYS_ADJTIMEX),
	deny("sethostname", unix.SYS_SETHOSTNAME),
	deny("setdomainname", unix.SYS_SETDOMAINNAME),
	// Terminals: no typing into them.
	deny("vhangup", unix.SYS_VHANGUP),
	deny("ioctl TIOCSTI", unix.SYS_IOCTL, is(1, unix.TIOCSTI)),
	deny("ioctl TIOCLINUX", unix.SYS_IOCTL, is(1, unix.TIOCLINUX)),
}

// ours denies calls that only our own children before exec may make, which show the secret: changes of the limits that mark trees.
func ours(k Kind) []Rule {
	time := deny("prlimit64 RLIMIT_RTTIME", unix.SYS_PRLIMIT64, is(1, unix.RLIMIT_RTTIME), pointer(2))
	locks := deny("prlimit64 RLIMIT_LOCKS", unix.SYS_PRLIMIT64, is(1, unix.RLIMIT_LOCKS), pointer(2))
	if k.Secret == [2]uint32{} {
		return []Rule{time, locks}
	}
	return slices.Concat(time.without(k.Secret), locks.without(k.Secret))
}

// without denies the call only without the secret: one rule for each half.
func (r Rule) without(secret [2]uint32) (rules []Rule) {
	r.Name += " without the secret"
	for i, half := range secret {
		rule := r
		rule.When = append(slices.Clip(r.When), isNot(4+i, half))
		rules = append(rules, rule)
	}
	return rules
}

// sockets returns the rules that depend on the network.
func sockets(k Kind) []Rule {
	var families []uint32
	if k.Network != Off {
		families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	}
	if k.Unix {
		families = append(families, unix.AF_UNIX)
	}
	others := make([]Condition, len(families))
	for i, family := range families {
		others[i] = isNot(0, family)
	}
	rules := []Rule{
		deny("socket of a family", unix.SYS_SOCKET, others...),
		deny("netlink but for routes", unix.SYS_SOCKET, is(0, unix.AF_NETLINK), isNot(2, unix.NETLINK_ROUTE)),
		deny("socketpair of a family", unix.SYS_SOCKETPAIR, isNot(0, unix.AF_UNIX)),
	}
	if !k.Unix {
		const kind = 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK
		rules = append(rules, deny("socketpair of datagrams", unix.SYS_SOCKETPAIR,
			maskedNot(1, kind, unix.SOCK_STREAM), maskedNot(1, kind, unix.SOCK_SEQPACKET)))
	}
	return rules
}

const setIDs = unix.S_ISUID | unix.S_ISGID

// creates are the flags with which open uses its mode. O_TMPFILE has two bits, one of which is O_DIRECTORY.
const creates = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// setID denies setting the bits that give the rights of a file's user or group to everybody who executes it. A filter cannot see the
// mode of openat2, so that call does not exist; programs then use openat.
var setID = []Rule{
	deny("fchmod of a set-id bit", unix.SYS_FCHMOD, anyOf(1, setIDs)),
	deny("fchmodat of a set-id bit", unix.SYS_FCHMODAT, anyOf(2, setIDs)),
	deny("fchmodat2 of a set-id bit", unix.SYS_FCHMODAT2, anyOf(2, setIDs)),
	deny("mknodat of a set-id file", unix.SYS_MKNODAT, anyOf(2, setIDs)),
	deny("openat of a set-id file", unix.SYS_OPENAT, anyOf(2, creates), anyOf(3, setIDs)),
	missing("openat2", unix.SYS_OPENAT2),
}

var metadata = []Rule{
	deny("fchmod", unix.SYS_FCHMOD),
	deny("fchmodat", unix.SYS_FCHMODAT),
	deny("fchmodat2", unix.SYS_FCHMODAT2),
	deny("fchown", unix.SYS_FCHOWN),
	deny("fchownat", unix.SYS_FCHOWNAT),
	deny("utimensat", unix.SYS_UTIMENSAT),
	deny("setxattr", unix.SYS_SETXATTR),
	deny("lsetxattr", unix.SYS_LSETXATTR),
	deny("fsetxattr", unix.SYS_FSETXATTR),
	deny("setxattrat", unix.SYS_SETXATTRAT),
	deny("removexattr", unix.SYS_REMOVEXATTR),
	deny("lremovexattr", unix.SYS_LREMOVEXATTR),
	deny("fremovexattr", unix.SYS_FREMOVEXATTR),
	deny("removexattrat", unix.SYS_REMOVEXATTRAT),
}

// shared denies ways to other processes of the user that Landlock does not restrict: objects with a key or a number belong
// to the whole user.
var shared = []Rule{
	deny("shmget", unix.SYS_SHMGET),
	deny("shmat", unix.SYS_SHMAT),
	deny("shmctl", unix.SYS_SHMCTL),
	deny("semget", unix.SYS_SEMGET),
	deny("semop", unix.SYS_SEMOP),
	deny("semtimedop", unix.SYS_SEMTIMEDOP),
	deny("semctl", unix.SYS_SEMCTL),
	deny("msgget", unix.SYS_MSGGET),
	deny("msgsnd", unix.SYS_MSGSND),
	deny("msgrcv", unix.SYS_MSGRCV),
	deny("msgctl", unix.SYS_MSGCTL),
	deny("mq_open", unix.SYS_MQ_OPEN),
	deny("mq_unlink", unix.SYS_MQ_UNLINK),
	// Flags of files, which can be set through a descriptor that is open for reading.
	deny("file_setattr", unix.SYS_FILE_SETATTR),
	deny("ioctl FS_IOC_SETFLAGS", unix.SYS_IOCTL, is(1, unix.FS_IOC_SETFLAGS)),
	deny("ioctl FS_IOC32_SETFLAGS", unix.SYS_IOCTL, is(1, 0x40046602)),
	deny("ioctl FS_IOC_FSSETXATTR", unix.SYS_IOCTL, is(1, 0x401c5820)),
	deny("ioctl FS_IOC_SETVERSION", unix.SYS_IOCTL, is(1, 0x40087602)),
}

// truncation denies truncating: a file that is opened for reading with O_TRUNC is truncated, too.
var truncation = []Rule{
	deny("truncate", unix.SYS_TRUNCATE),
	deny("openat for reading with O_TRUNC", unix.SYS_OPENAT, masked(2, unix.O_ACCMODE|unix.O_TRUNC, unix.O_RDONLY|unix.O_TRUNC)),
}
