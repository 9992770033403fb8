package ptyio

import (
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// opening holds a token while a terminal is opened. The kernel opens one after the other, and all wait while it enlarges the table of
// descriptors, which takes milliseconds. Whatever waits in the kernel has a thread, which Go never ends.
var opening = make(chan struct{}, 1)

// openPTY opens a terminal. Its master does not block, and is not yet on Go's poller.
func openPTY(size messages.Size) (master int, slave *os.File, err error) {
	opening <- struct{}{}
	master, slave, err = openPair()
	<-opening
	if err != nil {
		return -1, nil, err
	}
	if err = setSize(master, size); err == nil {
		err = takeUTF8(master)
	}
	if err != nil {
		_ = slave.Close()
		_ = unix.Close(master)
		return -1, nil, err
	}
	return master, slave, nil
}

// openByName opens the child's side by its name.
//
// creack/pty calls Fd, which puts the master into blocking mode for good: every waiting read would cost a thread, and Close
// would not wake it. So the master is duplicated.
func openByName() (master int, slave *os.File, err error) {
	blocking, slave, err := pty.Open()
	if err != nil {
		return -1, nil, err
	}
	master, err = unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	_ = blocking.Close()
	if err == nil {
		if err = syscall.SetNonblock(master, true); err == nil {
			return master, slave, nil
		}
		_ = unix.Close(master)
	}
	_ = slave.Close()
	return -1, nil, err
}

// control runs an ioctl without taking the descriptor off the poller. Its only error of its own is os.ErrClosed; callers
// hold the file open.
func control(file syscall.Conn, do func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return os.ErrClosed
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return os.ErrClosed
	}
	return failed
}

func setSize(fd int, size messages.Size) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

// takeUTF8 makes the kernel's line editor erase a character of several bytes as a whole.
func takeUTF8(fd int) error {
	mode, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return err
	}
	mode.Iflag |= unix.IUTF8
	return unix.IoctlSetTermios(fd, setTermios, mode)
}

func foregroundGroup(file syscall.Conn) (group int, err error) {
	err = control(file, func(fd int) error {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group, err
}
