package ptyio

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// noCharacter stands for a character that a terminal does not have (_POSIX_VDISABLE).
const noCharacter = 0xff

// discardUnread has nothing to do: TIOCSIG does it.
func discardUnread(int) {}

// unreadInput is unknown.
func unreadInput(int) int { return 0 }
