package client

import (
	"encoding/json"
	"math"
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

// What happens more than once comes before exited, and the rest in its order.
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

// item is one event of a process.
type item struct {
	kind   kind
	seq    uint64 // of the notification; if it stands for more than one, of the last
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

// feed keeps the events of one process until its owner has room for them. A server with flow sends them in order, and again after a
// cut. Another server may send them in any order, and more than once. If an event is missing, or there was no room for it, the feed is
// behind: it keeps no notification until a read has returned the events.
type feed struct {
	flow bool
	wake chan struct{} // holds a token when there is something new

	// mu is held only for moments. The reader of the connection must never wait for the owner of a process, and the events that wait
	// for the owner must be counted and joined, which a channel cannot do.
	mu      sync.Mutex
	next    uint64 // the number of the event that is due
	queue   []item // in order
	urgent  []item // the exit and what the leader left behind, which need not wait for credit
	size    int    // bytes in queue
	had     [kinds]bool
	behind  bool   // notifications are not kept
	skipped uint64 // the highest number that was not kept
	again   bool   // the acknowledgement must be sent again
	err     error  // why no more events will come
}

func newFeed(flow bool) *feed { return &feed{flow: flow, wake: make(chan struct{}, 1), next: 1} }

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
	defer f.poke()
	switch {
	case it.seq == 0 || it.seq == math.MaxUint64:
		return violation("it numbers an event of a process %d", it.seq)
	case it.seq < f.next || f.had[closed] && !f.flow: // it came before, or nothing more is told
		return nil
	case it.seq > f.next && f.flow:
		return violation("event %d of a process comes after event %d", it.seq, f.next-1)
	case it.seq > f.next || f.behind:
		f.behind, f.skipped = true, max(f.skipped, it.seq)
		return nil
	}
	return f.add(it)
}

// add appends the event that is due. The lock is held.
func (f *feed) add(it item) error {
	f.next = it.seq + 1
	switch {
	case it.kind < exited && f.had[closed]:
		return violation("output %d of a process comes after the end of its output", it.seq)
	case it.kind == exited && f.had[exited]: // a read has already reported it
		return nil
	case it.kind >= exited && f.had[it.kind]:
		return violation("event %d of a process reports what an earlier one has reported, and what happens once", it.seq)
	case it.kind > exited && !f.had[exited]:
		return violation("event %d reports the end of a process that has not exited", it.seq)
	case it.kind == ended && !f.had[closed]:
		return violation("event %d reports the end of a process whose output has not ended", it.seq)
	}
	f.had[it.kind] = true
	if it.kind == exited || it.kind == background {
		f.urgent = append(f.urgent, it)
		return nil
	}
	f.append(it)
	most := maxWaiting
	if f.flow {
		most = maxFlowing
	}
	switch full := f.size > most || len(f.queue) > maxWaitingItems; {
	case full && f.flow:
		return violation("it does not wait until the output of a process is acknowledged")
	case full:
		f.behind = true
	}
	return nil
}

// maxJoined is the size up to which output that waits is joined, so that small pieces cost little.
const maxJoined = wire.MaxChunk

func (f *feed) append(it item) {
	f.size += len(it.bytes)
	if n := len(f.queue); n > 0 && it.kind == output {
		last := &f.queue[n-1]
		if last.kind == output && last.stream == it.stream && len(last.bytes)+len(it.bytes) <= maxJoined {
			last.bytes, last.message, last.seq = append(last.bytes, it.bytes...), nil, it.seq
			return
		}
	}
	f.queue = append(f.queue, it)
}

// known reports whether a process can have this stream.
func known(stream messages.Stream) bool {
	return stream == messages.StreamStdout || stream == messages.StreamStderr || stream == messages.StreamPTY
}

// fill takes the answer to a read of everything from the due event on. When it was asked, seen was the highest known number. Events that
// the server no longer has are lost.
func (f *feed) fill(answer []byte, seen uint64) error {
	var page wire.ReadResult
	if err := json.Unmarshal(answer, &page); err != nil {
		return violation("its answer to a read is malformed: %s", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	due := f.next
	if page.NextSeq < due || page.Closed && !page.Exited {
		return violation("its answer to a read says that event %d is next, after event %d", page.NextSeq, due-1)
	}
	for _, chunk := range page.Chunks {
		if chunk.Seq < f.next || chunk.Seq >= page.NextSeq || !known(chunk.Stream) {
			return violation("chunk %d of its answer to a read cannot follow event %d", chunk.Seq, f.next-1)
		}
		f.bridge(chunk.Seq, &page)
		f.append(item{stream: chunk.Stream, bytes: chunk.Chunk, seq: chunk.Seq})
		f.next = chunk.Seq + 1
	}
	end := page.NextSeq
	if page.Closed && end > f.next {
		end--
	}
	f.bridge(end, &page)
	f.addExit(&page)
	f.next = page.NextSeq
	if page.Closed && !f.had[closed] {
		f.had[closed] = true
		f.append(item{kind: closed, seq: f.next - 1})
	}
	if page.Failure != nil {
		f.fail(failed("follow process", "the server has lost it: "+clipped(*page.Failure)))
	}
	if f.next == due && seen >= due {
		return violation("it has sent events after %d, but its answer to a read does not have them", due)
	}
	f.behind = f.skipped >= f.next
	return nil
}

// bridge accounts for the numbers before to that a page does not list: chunks that have been dropped, and the exit. The lock is held.
func (f *feed) bridge(to uint64, page *wire.ReadResult) {
	if to <= f.next {
		return
	}
	missing := int64(to - f.next)
	if page.Exited && !f.had[exited] {
		f.addExit(page)
		missing--
	}
	if missing > 0 { // each had one byte at least
		f.append(item{kind: gap, count: missing, seq: to - 1})
	}
	f.next = to
}

// addExit adds the exit that a page reports. The lock is held.
func (f *feed) addExit(page *wire.ReadResult) {
	if !page.Exited || f.had[exited] {
		return
	}
	e := exit{denied: page.SandboxDenied}
	if page.ExitCode != nil {
		e.code, e.known = *page.ExitCode, true
	}
	f.had[exited] = true
	f.urgent = append(f.urgent, item{kind: exited, exit: e})
}

// resume is called after a cut. A server with flow sends lost events again. From another server the client must read them.
func (f *feed) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.again = true
	f.behind = f.behind || !f.had[closed] && !f.flow
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
	due    uint64 // from this number on
	seen   uint64 // the highest number that is known to exist, if it is behind
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
	s := state{items: f.queue, behind: f.behind, due: f.next, seen: f.skipped, err: f.err}
	f.queue, f.size = nil, 0
	return s
}
