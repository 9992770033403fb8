package client

import (
	"sync"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// Bounds on what waits for the owner of one process.
const (
	maxWaiting      = 2 * wire.RetainedBytes
	maxFlowing      = wire.FlowBytes + wire.FlowBytes/4 // from a server that waits for acknowledgements
	maxWaitingItems = wire.RetainedChunks + 100
)

// kind says what happened to a process.
type kind int

const (
	output kind = iota
	gap
	exited
	background
	drained
	closed
	ended
	kinds
)

// item is one event of a process, in its place.
type item struct {
	kind   kind
	seq    uint64 // of the notification; 0 if it was learnt otherwise
	next   uint64 // the number behind it
	stream messages.Stream
	bytes  []byte
	// message is the memory of bytes, which is recycled after the output; nil if it is not to be.
	message []byte
	count   int64 // of lost bytes, or of living processes
	exit    exit
	tree    messages.TreeReport
}

// exit is what is known about the leader's end.
type exit struct {
	code   int
	known  bool // the code is
	status *messages.ExitStatus
	lost   string
	denied bool
	denial *messages.Denial
	limit  messages.Limit
}

// feed puts the events of one process in order. A server with flow sends them in order, and again after a cut. Another server may
// send them in any order, and more than once. If an event is missing, or there was no room for it, the process is behind until a
// read has returned it.
type feed struct {
	flow bool
	wake chan struct{} // holds a token when there is something new

	// mu is held only for moments. The reader of the connection must never wait for the owner of a process, and the events that wait
	// for the owner must be counted and joined, which a channel cannot do.
	mu        sync.Mutex
	next      uint64        // the number of the event that is due
	queue     []item        // in order
	urgent    []item        // the exit and what the leader left behind, which need not wait for credit
	size      int           // bytes in it
	told      [kinds]uint64 // the number of each event that comes once; 0 if it has not come
	early     map[uint64]item
	earlySize int
	behind    bool   // notifications are not kept
	skipped   uint64 // the highest number that was not kept
	exited    bool   // an exit is in the queue, or was taken from it
	closed    bool
	again     bool  // the acknowledgement must be sent again
	err       error // why no more events will come
}

func newFeed(flow bool) *feed {
	return &feed{flow: flow, wake: make(chan struct{}, 1), next: 1, early: map[uint64]item{}}
}

func (f *feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// put takes a notification. The error is the server's fault.
func (f *feed) put(it item) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(it); err != nil {
		return err
	}
	defer f.poke()
	switch {
	case f.behind:
		f.skipped = max(f.skipped, it.next-1)
	case it.next <= f.next: // it came before
	case it.seq > f.next && f.flow:
		return violation("event %d of a process comes after event %d", it.seq, f.next-1)
	case it.seq > f.next:
		f.keepEarly(it)
	default:
		if err := f.add(it); err != nil {
			return err
		}
		return f.advance()
	}
	return nil
}

// check refuses a notification that contradicts earlier ones. The lock is held.
func (f *feed) check(it item) error {
	if it.seq == 0 || it.next <= it.seq {
		return violation("it numbers an event of a process %d", it.seq)
	}
	last := f.told[ended]
	if !f.flow {
		last = f.told[closed]
	}
	if last != 0 && it.seq > last {
		return violation("event %d of a process comes after its end, %d", it.seq, last)
	}
	if it.kind < exited {
		return f.unclosed(it)
	}
	if before := f.told[it.kind]; before != 0 && before != it.seq {
		return violation("the events %d and %d of a process report the same thing, which happens once", before, it.seq)
	}
	if it.kind == closed {
		for seq, other := range f.early {
			if seq > it.seq || other.kind < exited && seq == it.seq {
				return violation("event %d of a process comes after its end, %d", seq, it.seq)
			}
		}
	}
	f.told[it.kind] = it.seq
	return nil
}

// unclosed refuses output after the end of the output. The lock is held.
func (f *feed) unclosed(it item) error {
	if end := f.told[closed]; end != 0 && it.next > end {
		return violation("output %d of a process comes after the end of its output, %d", it.seq, end)
	}
	return nil
}

// keepEarly keeps an event until those before it have come. The lock is held.
func (f *feed) keepEarly(it item) {
	if _, again := f.early[it.seq]; again {
		return
	}
	f.early[it.seq] = it
	f.earlySize += len(it.bytes)
	if len(f.early) > wire.ReorderChunks || f.earlySize > wire.RetainedBytes {
		f.fail(errDisorder)
	}
}

var errDisorder = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "follow process",
	Detail: "the server left out an event of the process; its output cannot be put in order, so the process is ended"}

// add appends the event that is due. The lock is held.
func (f *feed) add(it item) error {
	f.next = max(f.next, it.next)
	switch {
	case it.kind == exited && f.exited: // a read has already reported it
		return nil
	case it.kind > exited && !f.exited:
		return violation("event %d reports the end of a process that has not exited", it.next-1)
	case it.kind == ended && !f.closed:
		return violation("event %d reports the end of a process whose output has not ended", it.next-1)
	}
	f.exited = f.exited || it.kind == exited
	f.closed = f.closed || it.kind == closed
	if it.kind == exited || it.kind == background {
		f.urgent = append(f.urgent, it)
		return nil
	}
	f.append(it)
	most := maxWaiting
	if f.flow {
		most = maxFlowing
	}
	if f.size <= most && len(f.queue) <= maxWaitingItems {
		return nil
	}
	if f.flow {
		return violation("it does not wait until the output of a process is acknowledged")
	}
	f.fallBehind()
	return nil
}

// maxJoined is the size up to which output that waits is joined, so that small pieces cost little.
const maxJoined = wire.MaxChunk

func (f *feed) append(it item) {
	f.size += len(it.bytes)
	if n := len(f.queue); n > 0 && it.kind == output {
		last := &f.queue[n-1]
		if last.kind == output && last.stream == it.stream && len(last.bytes)+len(it.bytes) <= maxJoined {
			last.bytes, last.message, last.next = append(last.bytes, it.bytes...), nil, it.next
			return
		}
	}
	f.queue = append(f.queue, it)
}

// fallBehind stops keeping notifications until a read has returned all of them. The caller holds the lock.
func (f *feed) fallBehind() {
	f.behind = true
	for _, it := range f.early {
		f.skipped = max(f.skipped, it.next-1)
	}
	clear(f.early)
	f.earlySize = 0
}

// advance adds the early events whose turn has come. The lock is held.
func (f *feed) advance() error {
	for len(f.early) > 0 && !f.behind {
		it, there := f.early[f.next]
		if !there {
			break
		}
		delete(f.early, it.seq)
		f.earlySize -= len(it.bytes)
		if err := f.add(it); err != nil {
			return err
		}
	}
	return nil
}

// resume is called after a cut. A server with flow sends lost events again. From another server the client must read them.
func (f *feed) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.again = true
	if !f.closed && !f.flow {
		f.fallBehind()
	}
	f.poke()
}

// stop ends the feed with an error, after the queued events.
func (f *feed) stop(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail(err)
}

// fail is stop. The lock is held.
func (f *feed) fail(err error) {
	if f.err == nil {
		f.err = err
	}
	f.poke()
}

// state says what the pump has to do next.
type state struct {
	items  []item
	behind bool   // it must read
	hole   bool   // an event is missing, which may still come
	due    uint64 // its number
	seen   uint64 // the highest number that is known to exist
	err    error
}

// takeUrgent takes the events that may overtake output.
func (f *feed) takeUrgent() (urgent []item, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	urgent, again = f.urgent, f.again
	f.urgent, f.again = nil, false
	return urgent, again
}

// take takes the queued events, and returns the state after them.
func (f *feed) take() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := state{items: f.queue, behind: f.behind, hole: len(f.early) > 0, due: f.next, err: f.err}
	s.seen = f.skipped
	for seq := range f.early {
		s.seen = max(s.seen, seq)
	}
	f.queue, f.size = nil, 0
	return s
}
