package ptyio

import (
	"os"

	"golang.org/x/sys/unix"
)

// openPipe makes a pipe. The host's end waits on Go's poller, and the child's end does not. os.Pipe would register both
// ends, and undoing that for the child's end takes a dozen system calls for each command.
func openPipe(hostWrites bool) (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	ours := fds[0]
	if hostWrites {
		ours = fds[1]
	}
	if _, err := unix.FcntlInt(uintptr(ours), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// openNull opens the null device, which cannot be on a poller.
func openNull() (*os.File, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
}
