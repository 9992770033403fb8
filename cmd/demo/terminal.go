package main

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/cmd/internal/ask"
	"github.com/execbus/execbus/messages"
)

// terminal is the terminal that the demo was started on. The methods of a nil terminal do nothing: there is no terminal.
type terminal struct {
	before *unix.Termios // the state to restore
	once   sync.Once
	pasted bool // it marks pasted text
}

// openTerminal checks whether input and output are a terminal.
func openTerminal() *terminal {
	before, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), getTermios)
	if err != nil {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(os.Stdout.Fd()), getTermios); err != nil {
		return nil
	}
	return &terminal{before: before}
}

// raw passes every key on to the command's terminal, which interprets it (cfmakeraw).
func (t *terminal) raw() error {
	if t == nil {
		return nil
	}
	state := t.keys()
	state.Oflag &^= unix.OPOST
	return unix.IoctlSetTermios(int(os.Stdin.Fd()), setTermios, state)
}

// cbreak passes every key on, and leaves output processing unchanged, so that a crash report is readable.
func (t *terminal) cbreak() error {
	if t == nil {
		return nil
	}
	return unix.IoctlSetTermios(int(os.Stdin.Fd()), setTermios, t.keys())
}

func (t *terminal) keys() *unix.Termios {
	state := *t.before
	state.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	state.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	state.Cflag = state.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	state.Cc[unix.VMIN], state.Cc[unix.VTIME] = 1, 0
	return &state
}

// restore undoes raw and cbreak. It may be called from any goroutine and more than once.
func (t *terminal) restore() {
	if t != nil {
		t.once.Do(func() {
			if t.pasted {
				toTerminal([]byte(pasteOff))
			}
			_ = unix.IoctlSetTermios(int(os.Stdin.Fd()), setTermios, t.before)
		})
	}
}

// restoreOurs is restore, but it does nothing if a shell has taken the terminal back and set it up for itself.
func (t *terminal) restoreOurs() {
	if group, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
		t.restore()
	}
}

// restoreOnPanic is deferred by every goroutine, so that a crash leaves a usable terminal to read its report on.
func (t *terminal) restoreOnPanic() {
	if reason := recover(); reason != nil {
		t.restore()
		panic(reason)
	}
}

// drop drops what was typed and not read.
func (t *terminal) drop() {
	if t != nil {
		ask.Drop(os.Stdin)
	}
}

func (t *terminal) size() messages.Size {
	if t == nil {
		return messages.Size{}
	}
	size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return messages.Size{}
	}
	return messages.Size{Rows: size.Row, Cols: size.Col}
}
