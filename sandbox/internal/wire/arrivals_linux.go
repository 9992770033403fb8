package wire

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arrivals lets Go's poller wait for what arrives at a socket, and for nothing else. The poller would also watch for room in the
// socket; so the other side would wake a thread of this process with each message that it reads. What the poller has is an epoll that
// watches the socket.
type arrivals struct {
	file *os.File
	raw  syscall.RawConn
}

func newArrivals(socket int) (*arrivals, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, socket, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	a := &arrivals{}
	a.file, a.raw, err = polled(fd, "arrivals")
	return a, err
}

// polled takes over a descriptor and gives it to Go's poller.
func polled(fd int, name string) (file *os.File, raw syscall.RawConn, err error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fd))
	}
	file = os.NewFile(uintptr(fd), name)
	if raw, err = file.SyscallConn(); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, raw, nil
}

// ready waits until a descriptor is ready or has ended, but at most for this time.
func ready(fd int, events int16, most time.Duration) bool {
	fds := unix.PollFd{Fd: int32(fd), Events: events}
	timeout := unix.NsecToTimespec(int64(max(most, 0)))
	n, _, _ := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	return int(n) > 0
}
