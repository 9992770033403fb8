package ptyio

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// noCharacter stands for a character that a terminal does not have (_POSIX_VDISABLE).
const noCharacter = 0

// discardUnread discards input that was written to a terminal and not read yet. TIOCSIG does not discard it, and the master
// has no other way to reach what the child's side holds.
func discardUnread(master int) {
	onPeer(master, func(peer int) { _ = unix.IoctlSetInt(peer, unix.TCFLSH, unix.TCIFLUSH) })
}

// unreadInput returns how many bytes the child could read; in line mode only whole lines count. It does not count bytes that have no room
// in the terminal's 4 KiB.
func unreadInput(master int) (n int) {
	onPeer(master, func(peer int) { n = unreadBy(peer) })
	return n
}

// unreadBy is unreadInput for the child's side. It polls first: if the child could read nothing, that makes the kernel handle bytes that are
// on the way. If it could, and has read all before the next call, that did not happen, and it is asked again: three times at most, because an
// end of file is readable without a byte.
func unreadBy(peer int) int {
	for range 3 {
		readable, _ := unix.Poll([]unix.PollFd{{Fd: int32(peer), Events: unix.POLLIN}}, 0)
		n, err := unix.IoctlGetInt(peer, unix.TIOCINQ)
		if err != nil {
			return 0
		}
		if n > 0 || readable == 0 {
			return n
		}
	}
	return 0
}

// handledLooks bounds how often writeLines looks whether the kernel has handled what was written: usually that takes some microseconds.
const handledLooks = 16

// writeLines writes to a terminal in line mode. It reports whether the terminal has certainly handled all that was taken, and so has shown it
// if it ever does: nothing is left that the child could read, or as much more as was written and was on the way before. The terminal handles
// later what it has no room for.
func writeLines(master int, p []byte, onTheWay int) (n int, handled bool, err error) {
	asked := false
	onPeer(master, func(peer int) {
		asked = true
		before := unreadBy(peer)
		if before == 0 {
			onTheWay = 0
		}
		n, err = syscall.Write(master, p)
		for range handledLooks {
			unread := unreadBy(peer)
			if handled = unread == 0 || unread >= before+onTheWay+n; handled || n <= 0 {
				return
			}
		}
	})
	if !asked { // a kernel before 4.13, or the host has no descriptor left
		n, err = syscall.Write(master, p)
	}
	return n, handled, err
}

// openPair opens both sides of a terminal, the master for Go's poller and the child's side for blocking use. Opening that side by
// its name takes three times as many system calls.
func openPair() (master int, slave *os.File, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	locked := int32(0)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCSPTLCK, uintptr(unsafe.Pointer(&locked)))
	peer := uintptr(0)
	if errno == 0 {
		peer, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	}
	switch errno {
	case 0:
		return master, os.NewFile(peer, "tty"), nil
	case unix.EINVAL, unix.ENOTTY, unix.ENOSYS: // an emulator that does not know it
		_ = unix.Close(master)
		return openByName()
	}
	_ = unix.Close(master)
	return -1, nil, os.NewSyscallError("ioctl", errno)
}

// onPeer opens the child's side of a terminal for do. The terminal does not become our controlling terminal. On a kernel
// before 4.13 it does nothing.
func onPeer(master int, do func(peer int)) {
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if errno == 0 {
		do(int(peer))
		_ = unix.Close(int(peer))
	}
}

// readable waits until a descriptor has bytes.
func readable(fd int, wait time.Duration) bool {
	limit := unix.NsecToTimespec(int64(wait))
	n, _ := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, &limit, nil)
	return n > 0
}
