package ptyio

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// noCharacter stands for a character that a terminal does not have (_POSIX_VDISABLE).
const noCharacter = 0xff

// discardUnread does nothing: TIOCSIG discards the input.
func discardUnread(int) {}

// unreadInput returns 0: the number is not known.
func unreadInput(int) int { return 0 }

// writeLines writes to a terminal in line mode, which handles bytes while they are written.
func writeLines(master int, p []byte, _ int) (n int, handled bool, err error) {
	n, err = syscall.Write(master, p)
	return n, true, err
}

func openPair() (master int, slave *os.File, err error) { return openByName() }

// readable waits until a descriptor has bytes. It waits for whole milliseconds.
func readable(fd int, wait time.Duration) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(1, wait.Milliseconds())))
	return n > 0
}
