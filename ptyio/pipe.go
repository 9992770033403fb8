package ptyio

import (
	"os"

	"golang.org/x/sys/unix"
)

// openPipe makes a pipe whose host's end does not block. os.Pipe would register both ends with Go's poller, and undoing that for
// the child's end takes a dozen system calls for each command.
func openPipe(hostWrites bool) (ours int, theirs *os.File, err error) {
	var fds [2]int
	if err := pipe2(fds[:]); err != nil {
		return -1, nil, err
	}
	ours, end := fds[0], fds[1]
	if hostWrites {
		ours, end = fds[1], fds[0]
	}
	if _, err := unix.FcntlInt(uintptr(ours), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		_, _ = unix.Close(ours), unix.Close(end)
		return -1, nil, os.NewSyscallError("fcntl", err)
	}
	return ours, os.NewFile(uintptr(end), "pipe"), nil
}

// openNull opens the null device, which cannot be on a poller.
func openNull() (*os.File, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
}
