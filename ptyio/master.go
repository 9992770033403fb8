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

// master is our side of a terminal. Go's poller watches it, except while its child floods: the kernel would wake the poller's
// thread for each of the pieces of at most 4 KiB that a terminal hands out, although the reader is reading anyway. A file leaves the
// poller only when it is closed, so it is duplicated first. The terminal always has one descriptor, and for a moment two.
//
// Its methods are safe for concurrent use. Only the goroutine that reads may call Read, leave and Close. The lock guards the change
// of the descriptor, which several goroutines use at any time; it is held for a few system calls at most. A file is closed without
// it: that waits for calls of Control and Write, and these may wait for a goroutine that sets a deadline.
type master struct {
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

// newMaster takes over a terminal's descriptor, which must not block.
func newMaster(fd int) *master {
	m := &master{fd: fd}
	m.enter()
	return m
}

// newFile is a variable so that a test can refuse a file as the poller does.
var newFile = os.NewFile

// enter puts the descriptor on the poller. The kernel refuses that if it is short of memory, or the user's watches are used up.
func (m *master) enter() {
	m.file = newFile(uintptr(m.fd), "pty")
	m.raw, _ = m.file.SyscallConn() // it fails only without a file
	m.blind = m.file.SetReadDeadline(m.reading) != nil
	_ = m.file.SetWriteDeadline(m.writing)
}

// masterOf returns the terminal of a stream after its open. It is closed if the stream had ended.
func masterOf(s *stream) *master {
	if m, is := s.file.(*master); is {
		return m
	}
	return &master{closed: true}
}

// SyscallConn returns the master itself.
func (m *master) SyscallConn() (syscall.RawConn, error) { return m, nil }

// Control calls do with the descriptor. It does not wait for the poller.
func (m *master) Control(do func(fd uintptr)) error {
	for {
		m.mu.Lock()
		raw := m.raw
		switch {
		case m.closed:
			m.mu.Unlock()
			return os.ErrClosed
		case raw == nil:
			m.users++
		}
		m.mu.Unlock()
		if raw == nil {
			do(uintptr(m.fd)) // the number does not change while there are users
			m.unuse()
			return nil
		}
		if raw.Control(do) == nil {
			return nil
		} // it has left the poller meanwhile, or is closed
	}
}

func (m *master) unuse() {
	m.mu.Lock()
	m.users--
	last := m.users == 0 && m.closed
	m.mu.Unlock()
	if last {
		m.free()
	}
}

// Read calls do until it returns true, and waits before each further call until there are bytes.
func (m *master) Read(do func(fd uintptr) bool) error {
	raw, err := m.watch(0)
	switch {
	case err != nil:
		return err
	case raw == nil:
		return m.look(do, &m.reading)
	}
	return raw.Read(do)
}

// Write calls do until it returns true, and waits before each further call until there is room.
func (m *master) Write(do func(fd uintptr) bool) error {
	raw, err := m.watch(1)
	if err != nil {
		return err
	}
	defer func() {
		m.mu.Lock()
		m.waits--
		m.mu.Unlock()
	}()
	if raw == nil {
		return m.look(do, &m.writing)
	}
	return raw.Write(do)
}

// watch puts the descriptor back on the poller. It returns nil if the poller refuses it, as long as it has the same number.
func (m *master) watch(waits int) (syscall.RawConn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, os.ErrClosed
	}
	if m.file == nil {
		m.enter()
	}
	m.waits += waits
	if m.blind {
		return nil, nil
	}
	return m.raw, nil
}

// lookAgain is the time between two looks at a terminal that the poller refuses.
const lookAgain = 10 * time.Millisecond

// look is Read or Write without the poller.
func (m *master) look(do func(fd uintptr) bool, deadline *time.Time) error {
	for {
		m.mu.Lock()
		late := !deadline.IsZero() && !time.Now().Before(*deadline)
		m.mu.Unlock()
		if late {
			return os.ErrDeadlineExceeded
		}
		done := false
		if err := m.Control(func(fd uintptr) { done = do(fd) }); err != nil || done {
			return err
		}
		<-time.After(lookAgain)
	}
}

// leave takes the descriptor off the poller, unless somebody needs it there, and returns its new number. It stays valid until the
// next call of leave or Close.
func (m *master) leave() (fd int, ok bool) {
	fd, left := m.duplicate()
	if left != nil {
		_ = left.Close()
	}
	return fd, fd >= 0
}

// duplicate is leave, except that it returns the file to close, if there is one. The number is -1 if the descriptor stays where it is.
func (m *master) duplicate() (fd int, left *os.File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed || m.waits > 0:
		return -1, nil
	case m.file == nil:
		return m.fd, nil
	case m.users > 0:
		return -1, nil
	}
	least := 0
	if m.fd >= highFiles { // it was put aside
		least = highFiles
	}
	again, err := unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, least)
	if err != nil { // no descriptor is free
		return -1, nil
	}
	m.fd, left, m.file, m.raw, m.blind = again, m.file, nil, nil, false
	return again, left
}

// SetReadDeadline sets the deadline of Read, also of a call that waits.
func (m *master) SetReadDeadline(at time.Time) error {
	return m.setDeadline(&m.reading, at, (*os.File).SetReadDeadline)
}

// SetWriteDeadline sets the deadline of Write, also of a call that waits.
func (m *master) SetWriteDeadline(at time.Time) error {
	return m.setDeadline(&m.writing, at, (*os.File).SetWriteDeadline)
}

func (m *master) setDeadline(kept *time.Time, at time.Time, set func(*os.File, time.Time) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	*kept = at
	if m.file == nil {
		return nil
	}
	return set(m.file, at)
}

// Close closes the terminal. Calls that wait return with an error.
func (m *master) Close() error {
	m.mu.Lock()
	was, unused := m.closed, m.users == 0
	m.closed = true
	m.mu.Unlock()
	switch {
	case was:
		return os.ErrClosed
	case unused:
		m.free()
	}
	return nil
}

// free is called once, after the last change.
func (m *master) free() {
	if m.file != nil {
		_ = m.file.Close()
	} else {
		_ = unix.Close(m.fd)
	}
}
