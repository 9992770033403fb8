package seccomp

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// firstMissing is where the search tree ends. There are no numbers beyond it.
const firstMissing = 0x40000000

// arm64 has none of the calls that were replaced by newer ones.
var alwaysHere, setIDHere, metadataHere, truncationHere []Rule

// executions is execveat; execve has a branch of its own. foreignExecutions are those of 32-bit programs.
var (
	executions        = []uint32{unix.SYS_EXECVEAT}
	foreignExecutions = []uint32{11, 387}
)
