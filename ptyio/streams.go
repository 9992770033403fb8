package ptyio

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// child is a leader with its bytes. The fields are set before Spawned is delivered and not changed afterwards.
type child struct {
	launch   Launch
	leader   Leader
	terminal *os.File // the master of the PTY; nil on pipes
	input    *input
	streams  []*stream
	dead     bool // the start failed

	spawned   chan struct{} // closed when events may flow
	exited    chan struct{} // closed after Exited was delivered
	ended     chan struct{} // closed after TreeEnded was delivered
	abandoned chan struct{}
	abandon   sync.Once

	// Counters of streams that have not drained or closed; the stream that brings one to zero delivers the event. A
	// message would need a goroutine to receive it.
	undrained, opened atomic.Int32
}

// stream reads one descriptor of a child.
type stream struct {
	child   *child
	name    messages.Stream
	file    *os.File
	credits chan struct{}

	// What one attempt to read found.
	buffer *[MaxBatch]byte
	n      int
	err    error

	phase   phase
	drainBy time.Time
	drained bool
	closeBy time.Time
}

// phase is what a reader knows of its child.
type phase int

const (
	running phase = iota
	exited        // the leader is dead
	ended         // the whole tree is
)

var buffers = sync.Pool{New: func() any { return new([MaxBatch]byte) }}

// past is a deadline that wakes a reader at once, so that it looks at its child again.
var past = time.Unix(1, 0)

func newStream(c *child, name messages.Stream, file *os.File) *stream {
	s := &stream{child: c, name: name, file: file, credits: make(chan struct{}, Credits)}
	for range Credits {
		s.credits <- struct{}{}
	}
	return s
}

// read starts the readers.
func (c *child) read() {
	for _, s := range c.streams {
		go s.run()
	}
}

func (s *stream) run() {
	defer s.close()
	raw, err := s.file.SyscallConn()
	if err != nil {
		return
	}
	try := s.try
	for {
		s.advance()
		if !s.takeCredit() {
			return
		}
		s.buffer, s.n, s.err = nil, 0, nil
		if err := raw.Read(try); err != nil {
			s.credits <- struct{}{}
			if !os.IsTimeout(err) || s.overdue() {
				return
			}
			continue
		}
		if s.n <= 0 {
			s.credits <- struct{}{}
			return
		}
		s.deliver()
	}
}

// try reads once the descriptor may have something. It holds a buffer only while it does, so that an idle child has none.
func (s *stream) try(fd uintptr) bool {
	buffer := buffers.Get().(*[MaxBatch]byte)
	s.n, s.err = fill(int(fd), buffer[:])
	if s.n > 0 {
		s.buffer = buffer
		return true
	}
	buffers.Put(buffer)
	// EIO says that nobody has the terminal open. While the leader lives it may open it again.
	return s.err != syscall.EAGAIN && (s.err != syscall.EIO || s.phase != running)
}

// floodRead is the size of a read from which on more is likely to wait: the kernel hands out a PTY's output in pieces of
// at most 4 KiB.
const floodRead = 1 << 10

// fill reads until nothing waits if there is much, and once if there is little.
func fill(fd int, buffer []byte) (int, error) {
	total := 0
	for total < len(buffer) {
		n, err := syscall.Read(fd, buffer[total:])
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 {
			return total, err
		}
		total += n
		if n < floodRead {
			break
		}
	}
	return total, nil
}

func (s *stream) deliver() {
	buffer := s.buffer
	s.child.launch.Events(Output{Stream: s.name, Bytes: buffer[:s.n], release: func() {
		buffers.Put(buffer)
		s.credits <- struct{}{}
	}})
}

// takeCredit waits for credit. The time it waits does not count against the drain.
func (s *stream) takeCredit() bool {
	select {
	case <-s.child.abandoned:
		return false
	case <-s.credits:
		return true
	default:
	}
	since := time.Now()
	select {
	case <-s.child.abandoned:
		return false
	case <-s.credits:
	}
	if waited := time.Since(since); s.phase != running {
		s.drainBy, s.closeBy = s.drainBy.Add(waited), s.closeBy.Add(waited)
		s.arm()
	}
	return true
}

// advance learns what became of the child. Deadlines are set only here and after a wake-up, and the child is looked at
// again after each, because the wake-up of an event may come between.
func (s *stream) advance() {
	for s.phase != ended {
		next := s.phase + 1
		happened := s.child.exited
		if next == ended {
			happened = s.child.ended
		}
		select {
		case <-happened:
		default:
			return
		}
		s.phase = next
		if next == exited {
			s.drainBy = time.Now().Add(DrainWait)
		} else {
			s.closeBy = time.Now().Add(DrainWait)
		}
		s.arm()
	}
}

// arm sets the deadline of the phase.
func (s *stream) arm() {
	deadline := s.drainBy
	switch {
	case s.phase == ended:
		deadline = s.closeBy
	case s.drained:
		deadline = time.Time{}
	}
	_ = s.file.SetReadDeadline(deadline)
}

// overdue handles a wake-up by deadline and reports whether the stream must be given up: the tree is gone, and whoever
// still holds the other side open is none of ours.
func (s *stream) overdue() bool {
	now := time.Now()
	if s.phase == exited && !now.Before(s.drainBy) {
		s.reportDrained()
	}
	if s.phase == ended && !now.Before(s.closeBy) {
		return true
	}
	if s.phase != running {
		s.arm()
	}
	return false
}

func (s *stream) reportDrained() {
	if s.drained {
		return
	}
	s.drained = true
	if s.child.undrained.Add(-1) == 0 {
		s.child.launch.Events(Drained{})
	}
}

// close ends the stream. An end of output before the leader's exit is reported at once, Drained only after the exit.
func (s *stream) close() {
	c := s.child
	if c.terminal == nil {
		_ = s.file.Close()
	}
	if c.opened.Add(-1) == 0 {
		if c.terminal != nil {
			c.input.close()
			_ = c.terminal.Close()
		}
		c.launch.Events(Closed{})
	}
	select {
	case <-c.exited:
	case <-c.abandoned:
	}
	s.reportDrained()
}
