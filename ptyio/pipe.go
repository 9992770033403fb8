package ptyio

import (
	"os"
	"sync/atomic"

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

// null is the null device once it is open. It is an atomic so that a failure to open it can be followed by another attempt.
var null atomic.Pointer[os.File]

// openNull returns the null device, at which all children without input read end-of-file. It is opened once and stays open.
func openNull() (*os.File, error) {
	if file := null.Load(); file != nil {
		return file, nil
	}
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	file := os.NewFile(uintptr(fd), os.DevNull)
	if !null.CompareAndSwap(nil, file) {
		_ = file.Close()
	}
	return null.Load(), nil
}
