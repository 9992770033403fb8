package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped discards text that was typed and not read.
func discardTyped(tty *os.File) {
	const read = 1 // FREAD
	control(tty, func(fd int) { _ = unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, read) })
}
