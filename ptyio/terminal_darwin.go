package ptyio

import (
	"os"

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

func openPair() (master int, slave *os.File, err error) { return openByName() }
