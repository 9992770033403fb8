package main

import "golang.org/x/sys/unix"

const (
	getTermios        = unix.TIOCGETA
	setTermios        = unix.TIOCSETA
	setTermiosFlushed = unix.TIOCSETAF // it throws away what was typed and is not read
)
