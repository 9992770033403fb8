package ptyio

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipe2 makes a pipe that children do not inherit by themselves.
func pipe2(fds []int) error {
	return os.NewSyscallError("pipe2", unix.Pipe2(fds, unix.O_CLOEXEC))
}
