package main

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/execbus/execbus/messages"
)

// terminal is the caller's terminal. It is nil if the input is not a terminal.
type terminal struct {
	fd     int
	whole  bool     // the output is a terminal, too
	in     *os.File // the keys
	before *term.State

	// The caller's modes are restored at the end and for each question, and either may come at any time: the lock makes each change
	// whole. A message would have to be answered before the program ends.
	mu     sync.Mutex
	raw    bool          // keys are passed on unchanged
	over   bool          // the modes no longer change
	paused chan struct{} // closed when the open question is over; nil without one
}

// attach finds the caller's terminal; nil if the input is not one.
func attach(std streams) *terminal {
	in, isFile := std.in.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	t := &terminal{fd: int(in.Fd()), in: in}
	var err error
	if t.before, err = term.GetState(t.fd); err != nil {
		return nil
	}
	if out, isFile := std.out.(*os.File); isFile {
		t.whole = term.IsTerminal(int(out.Fd()))
	}
	return t
}

// pass lets keys through unchanged, when no question is open any more.
func (t *terminal) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw = true
	if t.paused == nil && !t.over {
		_, err := term.MakeRaw(t.fd)
		t.raw = err == nil
	}
}

// detach restores the terminal.
func (t *terminal) detach() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.raw && !t.over {
		_ = term.Restore(t.fd, t.before)
	}
	t.over = true
}

// pause gives the terminal to a question until the returned function is called: lines are edited as usual, and no key goes to the
// command.
func (t *terminal) pause() (resume func()) {
	if t == nil {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = make(chan struct{})
	_ = t.in.SetReadDeadline(time.Unix(1, 0)) // findPerson has checked that this works
	if t.raw && !t.over {
		_ = term.Restore(t.fd, t.before)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.raw && !t.over {
			_, _ = term.MakeRaw(t.fd)
		}
		_ = t.in.SetReadDeadline(time.Time{})
		close(t.paused)
		t.paused = nil
	}
}

// Read reads keys. While a question is open it waits.
func (t *terminal) Read(buffer []byte) (int, error) {
	for {
		n, err := t.in.Read(buffer)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		t.mu.Lock()
		paused := t.paused
		t.mu.Unlock()
		if paused != nil {
			<-paused
		}
	}
}

func (t *terminal) size() messages.Size {
	if t == nil {
		return messages.Size{}
	}
	columns, rows, err := term.GetSize(t.fd)
	if err != nil {
		return messages.Size{}
	}
	return messages.Size{Rows: uint16(rows), Cols: uint16(columns)}
}
