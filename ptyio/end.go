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

// end is our end of a terminal or of a pipe. Go's poller watches it from the first Read or Write on that has to wait: of many commands
// that start at once most have ended before their output is read. If the poller refuses, Read and Write look again and again.
// A terminal is off the poller while its child floods: the kernel would wake the poller's thread for each of the pieces of at most
// 4 KiB that a terminal hands out, although the reader is reading anyway. A file leaves the poller only when it is closed, so it is
// duplicated first. The terminal always has one descriptor, and for a moment two.
//
// Its methods are safe for concurrent use, but only the goroutine that reads may call Read and leave. The lock guards the change of
// the descriptor; it is held for a few system calls at most.
type end struct {
	mu     sync.Mutex
	fd     int
	file   *os.File // on the poller; nil while off it
	blind  bool     // the poller has refused the file
	closed bool
	users  int // calls that use the descriptor: it stays the same, and open

	reading, writing time.Time // the deadlines
}

// newEnd takes over a descriptor, which must not block.
func newEnd(fd int) *end { return &end{fd: fd} }

// newFile is a variable so that a test can refuse a file as the poller does.
var newFile = os.NewFile

// enter puts the descriptor on the poller. The kernel refuses that if it is short of memory, or the user's watches are used up.
func (e *end) enter() {
	e.file = newFile(uintptr(e.fd), "end")
	e.blind = e.file.SetReadDeadline(e.reading) != nil
	_ = e.file.SetWriteDeadline(e.writing)
}

// SyscallConn returns the end itself.
func (e *end) SyscallConn() (syscall.RawConn, error) { return e, nil }

// Control calls do with the descriptor. It does not wait for the poller.
func (e *end) Control(do func(fd uintptr)) error {
	if _, err := e.use(); err != nil {
		return err
	}
	defer e.unuse()
	do(uintptr(e.fd))
	return nil
}

// Read calls do until it returns true, and waits before each further call until there are bytes.
func (e *end) Read(do func(fd uintptr) bool) error {
	return e.wait(do, &e.reading, syscall.RawConn.Read)
}

// Write calls do until it returns true, and waits before each further call until there is room.
func (e *end) Write(do func(fd uintptr) bool) error {
	return e.wait(do, &e.writing, syscall.RawConn.Write)
}

func (e *end) wait(do func(fd uintptr) bool, deadline *time.Time, wait func(syscall.RawConn, func(uintptr) bool) error) error {
	file, err := e.use()
	if err != nil {
		return err
	}
	defer e.unuse()
	for file == nil {
		if over, err := e.look(do, deadline); over || err != nil {
			return err
		}
		if file, err = e.watched(); err != nil {
			return err
		}
		if file == nil {
			<-time.After(lookAgain)
		}
	}
	raw, err := file.SyscallConn()
	if err == nil {
		err = wait(raw, do)
	}
	if closed, _ := e.state(deadline); closed && err != nil {
		return os.ErrClosed
	}
	return err
}

// use keeps the descriptor as it is until unuse. The file is nil if the poller does not watch it.
func (e *end) use() (*os.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, os.ErrClosed
	}
	e.users++
	if e.blind {
		return nil, nil
	}
	return e.file, nil
}

// watched puts a descriptor that is in use on the poller. The file is nil if the poller refuses it.
func (e *end) watched() (*os.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed: // nobody would end the wait
		return nil, os.ErrClosed
	case e.file == nil:
		e.enter()
	}
	if e.blind {
		return nil, nil
	}
	return e.file, nil
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

// lookAgain is the time between two looks at an end that the poller refuses.
const lookAgain = 10 * time.Millisecond

// look is Read or Write as far as they need not wait.
func (e *end) look(do func(fd uintptr) bool, deadline *time.Time) (over bool, err error) {
	switch closed, late := e.state(deadline); {
	case closed:
		return false, os.ErrClosed
	case late:
		return false, os.ErrDeadlineExceeded
	}
	return do(uintptr(e.fd)), nil
}

func (e *end) state(deadline *time.Time) (closed, late bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed, !deadline.IsZero() && !time.Now().Before(*deadline)
}

// leave takes the descriptor off the poller, unless it is in use, and returns its new number. It stays valid until the next call of
// leave or Close.
func (e *end) leave() (fd int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed || e.users > 0:
		return -1, false
	case e.file == nil:
		return e.fd, true
	}
	again, err := unix.FcntlInt(uintptr(e.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil { // no descriptor is free
		return -1, false
	}
	_ = e.file.Close() // nobody uses it, so this waits for nobody
	e.fd, e.file, e.blind = again, nil, false
	return again, true
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
	if e.file == nil || e.closed {
		return nil
	}
	return set(e.file, at)
}

// Close closes the descriptor when the calls that use it have returned. Those that wait return with an error.
func (e *end) Close() error {
	e.mu.Lock()
	was, unused := e.closed, e.users == 0
	e.closed = true
	if e.file != nil {
		_ = e.file.SetDeadline(past)
	}
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
