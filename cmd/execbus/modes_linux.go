package main

import "golang.org/x/sys/unix"

const (
	getTermios        = unix.TCGETS
	setTermios        = unix.TCSETS
	setTermiosFlushed = unix.TCSETSF // it throws away what was typed and is not read
)
