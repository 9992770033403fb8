package ptyio

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conn is our end of a terminal or of a pipe.
type conn interface {
	syscall.Conn
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Close() error
}

// end is our end of a terminal or of a pipe. Go's poller watches it, unless it refuses to: then Read and Write look again and again.
// A terminal is off the poller while its child floods: the kernel would wake the poller's thread for each of the pieces of at most
// 4 KiB that a terminal hands out, although the reader is reading anyway. A file leaves the poller only when it is closed, so it is
// duplicated first. The terminal always has one descriptor, and for a moment two.
//
// Its methods are safe for concurrent use. Only the goroutine that reads may call Read and leave; while it may call leave, only that
// one may call Close. The lock guards the change of the descriptor, which several goroutines use at any time; it is held for a few
// system calls at most. A file is closed without it: that waits for calls of Control and Write, and these may wait for a goroutine
// that sets a deadline.
type end struct {
	mu     sync.Mutex
	fd     int
	file   *os.File        // on the poller; nil while off it
	raw    syscall.RawConn // of file
	blind  bool            // the poller has refused the file
	closed bool
	users  int // calls of Control that use the descriptor while it is off the poller
	waits  int // calls of Write, which need the poller

	reading, writing time.Time // the deadlines
}

// newEnd takes over a descriptor, which must not block.
func newEnd(fd int) *end {
	e := &end{fd: fd}
	e.enter()
	return e
}

// newFile is a variable so that a test can refuse a file as the poller does.
var newFile = os.NewFile

// enter puts the descriptor on the poller. The kernel refuses that if it is short of memory, or the user's watches are used up.
func (e *end) enter() {
	e.file = newFile(uintptr(e.fd), "end")
	e.raw, _ = e.file.SyscallConn() // it fails only without a file
	e.blind = e.file.SetReadDeadline(e.reading) != nil
	_ = e.file.SetWriteDeadline(e.writing)
}

// SyscallConn returns the end itself.
func (e *end) SyscallConn() (syscall.RawConn, error) { return e, nil }

// Control calls do with the descriptor. It does not wait for the poller.
func (e *end) Control(do func(fd uintptr)) error {
	for {
		e.mu.Lock()
		raw := e.raw
		switch {
		case e.closed:
			e.mu.Unlock()
			return os.ErrClosed
		case raw == nil:
			e.users++
		}
		e.mu.Unlock()
		if raw == nil {
			do(uintptr(e.fd)) // the number does not change while there are users
			e.unuse()
			return nil
		}
		if raw.Control(do) == nil {
			return nil
		} // it has left the poller meanwhile, or is closed
	}
}

func (e *end) unuse() {
	e.mu.Lock()
	e.users--
	last := e.users == 0 && e.closed
	e.mu.Unlock()
	if last {
		e.free()
	}
}

// Read calls do until it returns true, and waits before each further call until there are bytes.
func (e *end) Read(do func(fd uintptr) bool) error {
	raw, err := e.watch(0)
	switch {
	case err != nil:
		return err
	case raw == nil:
		return e.look(do, &e.reading)
	}
	return raw.Read(do)
}

// Write calls do until it returns true, and waits before each further call until there is room.
func (e *end) Write(do func(fd uintptr) bool) error {
	raw, err := e.watch(1)
	if err != nil {
		return err
	}
	defer func() {
		e.mu.Lock()
		e.waits--
		e.mu.Unlock()
	}()
	if raw == nil {
		return e.look(do, &e.writing)
	}
	return raw.Write(do)
}

// watch puts the descriptor back on the poller. It returns nil if the poller refuses it, as long as it has the same number.
func (e *end) watch(waits int) (syscall.RawConn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, os.ErrClosed
	}
	if e.file == nil {
		e.enter()
	}
	e.waits += waits
	if e.blind {
		return nil, nil
	}
	return e.raw, nil
}

// lookAgain is the time between two looks at an end that the poller refuses.
const lookAgain = 10 * time.Millisecond

// look is Read or Write without the poller.
func (e *end) look(do func(fd uintptr) bool, deadline *time.Time) error {
	for {
		e.mu.Lock()
		late := !deadline.IsZero() && !time.Now().Before(*deadline)
		e.mu.Unlock()
		if late {
			return os.ErrDeadlineExceeded
		}
		done := false
		if err := e.Control(func(fd uintptr) { done = do(fd) }); err != nil || done {
			return err
		}
		<-time.After(lookAgain)
	}
}

// leave takes the descriptor off the poller, unless somebody needs it there, and returns its new number. It stays valid until the
// next call of leave or Close.
func (e *end) leave() (fd int, ok bool) {
	fd, left := e.duplicate()
	if left != nil {
		_ = left.Close()
	}
	return fd, fd >= 0
}

// duplicate is leave, except that it returns the file to close, if there is one. The number is -1 if the descriptor stays where it is.
func (e *end) duplicate() (fd int, left *os.File) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed || e.waits > 0:
		return -1, nil
	case e.file == nil:
		return e.fd, nil
	case e.users > 0:
		return -1, nil
	}
	again, err := unix.FcntlInt(uintptr(e.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil { // no descriptor is free
		return -1, nil
	}
	e.fd, left, e.file, e.raw, e.blind = again, e.file, nil, nil, false
	return again, left
}

// SetReadDeadline sets the deadline of Read, also of a call that waits.
func (e *end) SetReadDeadline(at time.Time) error {
	return e.setDeadline(&e.reading, at, (*os.File).SetReadDeadline)
}

// SetWriteDeadline sets the deadline of Write, also of a call that waits.
func (e *end) SetWriteDeadline(at time.Time) error {
	return e.setDeadline(&e.writing, at, (*os.File).SetWriteDeadline)
}

func (e *end) setDeadline(kept *time.Time, at time.Time, set func(*os.File, time.Time) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	*kept = at
	if e.file == nil {
		return nil
	}
	return set(e.file, at)
}

// Close closes the descriptor. Calls that wait return with an error.
func (e *end) Close() error {
	e.mu.Lock()
	was, unused := e.closed, e.users == 0
	e.closed = true
	e.mu.Unlock()
	switch {
	case was:
		return os.ErrClosed
	case unused:
		e.free()
	}
	return nil
}

// free is called once, after the last change.
func (e *end) free() {
	if e.file != nil {
		_ = e.file.Close()
	} else {
		_ = unix.Close(e.fd)
	}
}
