package seccomp

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_X86_64

// firstMissing is the first number of the x32 ABI, whose calls are those of amd64 with other numbers.
const firstMissing = 0x40000000

var alwaysHere = []Rule{
	deny("iopl", unix.SYS_IOPL),
	deny("ioperm", unix.SYS_IOPERM),
	deny("uselib", unix.SYS_USELIB),
}

var setIDHere = []Rule{
	deny("chmod of a set-id bit", unix.SYS_CHMOD, anyOf(1, setIDs)),
	deny("mknod of a set-id file", unix.SYS_MKNOD, anyOf(1, setIDs)),
	deny("creat of a set-id file", unix.SYS_CREAT, anyOf(1, setIDs)),
	deny("open of a set-id file", unix.SYS_OPEN, anyOf(1, creates), anyOf(2, setIDs)),
}

var metadataHere = []Rule{
	deny("chmod", unix.SYS_CHMOD),
	deny("chown", unix.SYS_CHOWN),
	deny("lchown", unix.SYS_LCHOWN),
	deny("utime", unix.SYS_UTIME),
	deny("utimes", unix.SYS_UTIMES),
	deny("futimesat", unix.SYS_FUTIMESAT),
}

var truncationHere = []Rule{
	deny("open for reading with O_TRUNC", unix.SYS_OPEN, masked(1, unix.O_ACCMODE|unix.O_TRUNC, unix.O_RDONLY|unix.O_TRUNC)),
}

// executions are execveat, and the two of the x32 ABI; execve has a branch of its own. foreignExecutions are those of 32-bit programs.
var (
	executions        = []uint32{unix.SYS_EXECVEAT, firstMissing + 520, firstMissing + 545}
	foreignExecutions = []uint32{11, 358}
)
