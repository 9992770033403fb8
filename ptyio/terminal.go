package ptyio

import (
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// openPTY opens a terminal whose master waits on Go's poller.
//
// creack/pty reads the descriptor with Fd, which puts the master into blocking mode for good: every waiting read would
// cost a thread and Close would not wake it. So the master is a duplicate that is wrapped anew.
func openPTY(size messages.Size) (master, slave *os.File, err error) {
	blocking, slave, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	_ = blocking.Close()
	if err == nil {
		err = syscall.SetNonblock(fd, true)
		master = os.NewFile(uintptr(fd), "pty")
	}
	if err == nil {
		err = setSize(master, size)
	}
	if err != nil {
		_ = slave.Close()
		if master != nil {
			_ = master.Close()
		}
		return nil, nil, err
	}
	return master, slave, nil
}

// control runs an ioctl without taking the descriptor off the poller.
func control(file *os.File, do func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func setSize(file *os.File, size messages.Size) error {
	return control(file, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
}

func foregroundGroup(file *os.File) (group int, err error) {
	err = control(file, func(fd int) error {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group, err
}

// lineMode is how a terminal cuts input into lines.
type lineMode struct {
	on        bool
	eof       byte // 0: there is none
	endings   []byte
	returnToo bool // a carriage return ends a line
}

func (m lineMode) ends(b byte) bool {
	if b == '\n' || b == '\r' && m.returnToo {
		return true
	}
	for _, ending := range m.endings {
		if b == ending {
			return true
		}
	}
	return false
}

// readLineMode asks the master, which answers for the slave.
func readLineMode(file *os.File) (mode lineMode, err error) {
	err = control(file, func(fd int) error {
		state, err := unix.IoctlGetTermios(fd, getTermios)
		if err != nil {
			return err
		}
		mode.on = state.Lflag&unix.ICANON != 0
		mode.eof = state.Cc[unix.VEOF]
		mode.returnToo = state.Iflag&unix.ICRNL != 0
		mode.endings = terminators(state)
		return nil
	})
	return mode, err
}

// terminators are the characters after which the terminal's line is empty: line ends, the kill character, and those that
// raise a signal and flush the input.
func terminators(state *unix.Termios) []byte {
	indexes := []int{unix.VEOL, unix.VEOL2, unix.VEOF, unix.VKILL}
	if state.Lflag&unix.ISIG != 0 && state.Lflag&unix.NOFLSH == 0 {
		indexes = append(indexes, unix.VINTR, unix.VQUIT, unix.VSUSP)
	}
	var found []byte
	for _, i := range indexes {
		if state.Cc[i] != 0 { // _POSIX_VDISABLE on Linux
			found = append(found, state.Cc[i])
		}
	}
	return found
}
