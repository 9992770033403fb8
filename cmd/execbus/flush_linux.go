package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped discards text that was typed and not read.
func discardTyped(tty *os.File) {
	control(tty, func(fd int) { _ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) })
}
