package warden

import (
	"time"

	"golang.org/x/sys/unix"
)

// poll is the epoll on which the thread that serves waits. With Go's poller, another thread would wait and then wake this one.
type poll struct {
	fd     int
	bell   int // an eventfd, by which others wake the spawning thread
	events [32]unix.EpollEvent
}

func newPoll() (*poll, error) {
	p := &poll{}
	var err error
	if p.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if p.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	return p, p.add(p.bell)
}

func (p *poll) add(fd int) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// remove must come before a descriptor is closed: a child may still have a copy, and the kernel would go on reporting that.
func (p *poll) remove(fd int) { _ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// ring wakes the spawning thread that waits. It may be called in any goroutine.
func (p *poll) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(p.bell, one[:])
}

// hear silences the bell.
func (p *poll) hear() {
	var count [8]byte
	_, _ = unix.Read(p.bell, count[:])
}

// wait returns the events of the descriptors that are ready. A negative time is unlimited.
func (p *poll) wait(most time.Duration) []unix.EpollEvent {
	millis := -1
	if most >= 0 {
		millis = int(most / time.Millisecond)
	}
	n, err := unix.EpollWait(p.fd, p.events[:], millis)
	if err != nil {
		return nil
	}
	return p.events[:n]
}
