package ptyio

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipe2 makes a pipe that children do not inherit by themselves.
func pipe2(fds []int) error {
	return os.NewSyscallError("pipe2", unix.Pipe2(fds, unix.O_CLOEXEC))
}

// unreadPipe returns how many bytes of a pipe were not read. Either end may be asked.
func unreadPipe(end int) int {
	n, _ := unix.IoctlGetInt(end, unix.TIOCINQ) // the same number as FIONREAD
	return n
}
