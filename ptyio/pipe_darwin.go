package ptyio

import (
	"os"
	"syscall"
)

// pipe2 makes a pipe that children do not inherit by themselves.
func pipe2(fds []int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(fds); err != nil {
		return os.NewSyscallError("pipe", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return nil
}

// unreadPipe returns 0: nobody asks, because readers are not observed here.
func unreadPipe(int) int { return 0 }
