package ptyio

import (
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// Inquirer is a Child that can be asked what its tree waits for. An answer may take some milliseconds, so an actor asks in a
// goroutine.
type Inquirer interface {
	// AwaitedInput looks for a member that waits for input. It returns nil if none was found, if there is input that was not read, or if
	// there is output that was not delivered: when it returns a program, all output that the program has written before it began to
	// wait has been delivered. The error is messages.ErrUnsupported if this cannot be known of any child here; after another error the next
	// look may succeed.
	AwaitedInput() (*messages.AwaitedInput, error)
	// Listeners returns the TCP sockets on which members of the tree listen. The errors are those of AwaitedInput.
	Listeners() ([]Listener, error)
}

// Listener is a TCP socket on which a member of a tree listens.
type Listener struct {
	Address netip.AddrPort
	PID     int
	Program string
}

// Observer is a Leader that can look at the members of its tree. An error that matches errors.ErrUnsupported says that it never can.
type Observer interface {
	// Reader finds a member that sleeps until it can read a file; nil if none was found. If none was found and the system hides some that may
	// be one, that is an error.
	Reader(file InputFile) (*Reader, error)
	// Listeners returns the TCP sockets on which members listen.
	Listeners() ([]Listener, error)
}

// InputFile identifies the file from which a child reads its input.
type InputFile struct {
	FileSystem, Inode uint64
	Device            uint64 // of a terminal; zero for a pipe
}

// Reader is a member of a tree that sleeps until it can read its input.
type Reader struct {
	PID     int
	Program string
	// Hidden says that the system does not show what it waits for. Watches says that an event loop waits for the input among other files: it
	// may have stopped reading. Only says that nothing but the input lets it go on: it has one thread, which waits for no other file and no time.
	Hidden, Watches, Only bool
	Still                 func() bool // it has been sleeping in the same call since
}

func inputFileOf(file *os.File) (found InputFile) {
	var stat unix.Stat_t
	if err := control(file, func(fd int) error { return unix.Fstat(fd, &stat) }); err != nil {
		return found
	}
	found = InputFile{FileSystem: uint64(stat.Dev), Inode: stat.Ino}
	if stat.Mode&unix.S_IFMT == unix.S_IFCHR {
		found.Device = uint64(stat.Rdev)
	}
	return found
}

// AwaitedInput implements Inquirer. Each observation lies between two others that would show what makes it void: a reader has been
// asleep since before the input was found empty, so it was not about to take some.
func (c *child) AwaitedInput() (*messages.AwaitedInput, error) {
	observer, can := c.leader.(Observer)
	switch {
	case c.stdin == InputFile{} || c.over():
		return nil, nil
	case !can:
		return nil, notObserved(errors.ErrUnsupported)
	}
	reader, err := observer.Reader(c.stdin)
	if err != nil && !c.over() {
		return nil, notObserved(err)
	}
	if reader == nil {
		return nil, nil
	}
	before, idle := c.input.idle()
	if !idle || c.input.unread() > 0 {
		return nil, nil
	}
	kind, err := c.inputKind()
	if err != nil || !reader.Still() || c.outputWaits() {
		return nil, nil
	}
	if after, idle := c.input.idle(); !idle || after != before {
		return nil, nil
	}
	return &messages.AwaitedInput{Kind: kind, Guess: reader.Hidden || reader.Watches && kind != messages.InputKeys, Hidden: reader.Hidden, Only: reader.Only,
		PID: reader.PID, Program: reader.Program}, nil
}

// Listeners implements Inquirer.
func (c *child) Listeners() ([]Listener, error) {
	observer, can := c.leader.(Observer)
	if !can {
		return nil, notObserved(errors.ErrUnsupported)
	}
	found, err := observer.Listeners()
	switch {
	case c.over():
		return nil, nil
	case err != nil:
		return nil, notObserved(err)
	}
	return found, nil
}

func notObserved(why error) error {
	if errors.Is(why, errors.ErrUnsupported) {
		return &messages.Error{Code: messages.ErrUnsupported, Op: "look at process", Detail: "the system does not show what its programs wait for; wait for output or an exit instead"}
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "look at process", Detail: "its programs could not be looked at: " + why.Error()}
}

// inputKind tells the kind from the modes of the terminal.
func (c *child) inputKind() (kind messages.InputKind, err error) {
	kind = messages.InputLine
	if c.terminal == nil {
		return kind, nil
	}
	err = control(c.terminal, func(fd int) (err error) {
		kind, err = kindOf(fd)
		return err
	})
	return kind, err
}

// outputWaits reports whether there may be output that was not delivered.
func (c *child) outputWaits() bool {
	for _, s := range c.streams {
		waits := false
		err := control(s.file, func(fd int) error {
			polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			_, err := unix.Poll(polled, 0)
			waits = polled[0].Revents&unix.POLLIN != 0
			return err
		})
		if err == nil && waits || s.taking.Load() { // in this order: what was read since is being delivered
			return true
		}
	}
	return false
}
