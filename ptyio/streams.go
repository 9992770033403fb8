package ptyio

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// child is a leader with its bytes. The fields are set before Spawned is delivered and do not change afterwards.
type child struct {
	launch   Launch
	leader   Leader
	terminal *end // nil on pipes
	input    *input
	stdin    InputFile // zero without an open input
	streams  []*stream
	// responder answers what the child asks its terminal; nil if somebody else does.
	responder *responder
	born      sync.Once
	theirs    []*os.File // our copies of the child's files; none once it is born
	dead      bool       // the start failed

	spawned   chan struct{} // closed when events may flow
	exited    chan struct{} // closed after Exited was delivered
	ended     chan struct{} // closed before TreeEnded is delivered: its receiver must find that the child is over
	abandoned chan struct{}
	abandon   sync.Once

	bounds bounds

	// undrained is the number of streams that have not drained, plus one until the leader exits; opened is the number of open
	// streams. The goroutine that brings one of them to zero delivers its event. A message would need a goroutine to receive
	// it.
	undrained, opened atomic.Int32
}

// stream reads one descriptor of a child.
type stream struct {
	child   *child
	name    messages.Stream
	file    conn
	credits chan struct{} // one token for each batch that may still be handed out
	rate    rate

	taking atomic.Bool // bytes may have been read that were not handed out yet

	// The result of the last attempt to read.
	buffer *[MaxBatch]byte
	n      int
	err    error

	phase   phase
	until   time.Time // the end of the phase
	since   int       // bytes read in this phase
	drained bool
	looking bool      // the attempt does not wait
	armed   time.Time // the descriptor's read deadline, as far as we set it
}

// phase is what a reader knows about its child.
type phase int

const (
	running phase = iota
	exited        // the leader has exited
	ended         // the whole tree has ended
)

// kernelHolds is the most that a pipe of an ordinary user holds (fs.pipe-max-size); a terminal holds 12 KiB. When so much
// was read after a process has died, everything that it wrote has been read, even if others keep writing.
const kernelHolds = 1 << 20

var buffers = sync.Pool{New: func() any { return new([MaxBatch]byte) }}

// past is a deadline that wakes a reader at once, so that it looks at its child again.
var past = time.Unix(1, 0)

func newStream(c *child, name messages.Stream, file conn, credits int) *stream {
	s := &stream{child: c, name: name, file: file, credits: make(chan struct{}, credits)}
	for range credits {
		s.credits <- struct{}{}
	}
	return s
}

// run reads until the output ends, the tree is gone, or nobody wants the output any more.
func (s *stream) run() {
	defer s.close()
	raw, err := s.file.SyscallConn()
	if err != nil {
		return
	}
	try := s.try
	for s.takeCredit() && s.advance() {
		s.n, s.err = 0, nil
		var err error
		if !s.gather() {
			err = raw.Read(try)
		}
		if s.n > 0 {
			s.deliver()
			if s.n < moreRead { // a receiver that waits for a few bytes gets them before another attempt
				runtime.Gosched()
			}
		} else {
			s.credits <- struct{}{}
		}
		s.taking.Store(false)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.armed = past
		case err != nil || s.n <= 0 && s.err != syscall.EAGAIN:
			return
		case s.looking && (s.n <= 0 || s.since >= kernelHolds):
			if s.phase == ended { // a process outside of the tree holds the other side open
				return
			}
			s.reportDrained()
		}
	}
}

// gather reads from a terminal whose child floods, and reports whether there were bytes. Otherwise the flood is over, or the poller
// is needed.
func (s *stream) gather() bool {
	if s.child.terminal == nil || !s.rate.floods() {
		return false
	}
	fd, ok := s.child.terminal.leave()
	if !ok {
		return false
	}
	s.taking.Store(true)
	buffer := buffers.Get().(*[MaxBatch]byte)
	s.n = gather(fd, buffer[:])
	return s.hold(buffer)
}

// hold keeps the buffer if bytes were read into it.
func (s *stream) hold(buffer *[MaxBatch]byte) bool {
	s.rate.count(s.n)
	if s.n <= 0 {
		buffers.Put(buffer)
		return false
	}
	s.buffer = buffer
	return true
}

// try reads when the descriptor may have bytes. It holds a buffer only then, so an idle child has none.
func (s *stream) try(fd uintptr) bool {
	s.taking.Store(true)
	buffer := buffers.Get().(*[MaxBatch]byte)
	if s.n, s.err = fill(int(fd), buffer[:], s.rate.floods()); s.hold(buffer) {
		return true
	}
	s.taking.Store(false)
	switch s.err {
	case syscall.EAGAIN:
		return s.looking
	case syscall.EIO: // nobody has the terminal open; while the leader lives it may open it again
		return s.phase != running
	default:
		return true
	}
}

func (s *stream) deliver() {
	s.since += s.n
	buffer := s.buffer
	s.buffer = nil // the batch's from now on: a stream that kept it would keep memory while it is idle
	if s.n = s.child.allowed(s.n); s.n == 0 {
		buffers.Put(buffer)
		s.credits <- struct{}{}
		return
	}
	if s.child.responder != nil {
		s.child.responder.read(buffer[:s.n])
	}
	s.child.launch.Events(Output{Stream: s.name, Bytes: buffer[:s.n], release: func() {
		buffers.Put(buffer)
		s.credits <- struct{}{}
	}})
}

// takeCredit waits for credit. The waiting time does not count against the phase.
func (s *stream) takeCredit() bool {
	select {
	case <-s.credits:
		return true
	default:
	}
	began := time.Now()
	select {
	case <-s.child.abandoned:
		return false
	case <-s.credits:
		s.until = s.until.Add(time.Since(began))
		return true
	}
}

// advance looks at the state of the child, and reports whether its output is still wanted. It sets the deadline before it looks,
// and a change of the child sets the deadline again afterwards, so no change is missed.
func (s *stream) advance() bool {
	for {
		s.arm()
		select {
		case <-s.child.abandoned:
			return false
		default:
		}
		if !s.enterNextPhase() {
			return true
		}
	}
}

func (s *stream) enterNextPhase() bool {
	var happened chan struct{}
	switch s.phase {
	case running:
		happened = s.child.exited
	case exited:
		happened = s.child.ended
	}
	select {
	case <-happened:
		s.phase++
		s.since, s.until = 0, time.Now().Add(DrainWait)
		return true
	default:
		return false
	}
}

// arm sets the deadline of the phase. After the deadline the reader takes the remaining bytes without waiting: on a busy
// machine it may not have run before. The phase ends only when the descriptor is empty, or when more was read than a dead
// process can have left.
func (s *stream) arm() {
	deadline, waits := time.Time{}, s.phase == ended || s.phase == exited && !s.drained
	s.looking = waits && !time.Now().Before(s.until)
	if waits && !s.looking { // with a deadline in the past, reads fail at once
		deadline = s.until
	}
	if !deadline.Equal(s.armed) {
		s.armed = deadline
		_ = s.file.SetReadDeadline(deadline)
	}
}

func (s *stream) reportDrained() {
	if !s.drained {
		s.drained = true
		s.child.countDrained()
	}
}

// countDrained is called by each stream and by the leader's exit, so that Drained never comes before Exited.
func (c *child) countDrained() {
	if c.undrained.Add(-1) == 0 {
		c.launch.Events(Drained{})
	}
}

// close ends the stream. Drained goes out before Closed. So only the events of the leader's exit can follow Closed.
func (s *stream) close() {
	c := s.child
	s.reportDrained()
	if c.launch.TTY {
		c.input.close()
	}
	_ = s.file.Close()
	if c.opened.Add(-1) > 0 {
		return
	}
	c.launch.Events(Closed{})
}
