package wire

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Bounds of what waits in an Outbox.
const (
	// maxStartBytes and maxStartFiles bound the starts that wait for the socket. A larger start waits until it is alone;
	// maxMessage bounds it.
	maxStartBytes = 8 << 20
	maxStartFiles = 256
	// maxSignals bounds the signals that wait; one more is refused. Equal ones wait as one, as in the kernel, so only groups and
	// real-time signals can reach this number. Ends need no bound: there is at most one for each leader.
	maxSignals = 1 << 13
	// realTime is the first real-time signal. The kernel delivers these as often as they were sent.
	realTime = 32
)

// ErrFull says that too many signals wait.
var ErrFull = errors.New("too many signals wait for a warden that does not read")

// Outbox sends the host's requests. Its own goroutine writes them, but for answers, so that callers do not wait for the socket. Signals and
// ends have room of their own and overtake the starts that wait.
type Outbox struct {
	conn *Conn

	// mu guards the queues. A channel would not do: its items can be neither withdrawn nor merged.
	mu     sync.Mutex
	starts []*waiting // the first may be on its way
	bytes  int
	files  int
	urgent []*Request
	merged map[urgency]*Request // the requests in urgent that later ones are merged into
	state  outboxState
	moved  chan struct{} // closed, and replaced, when there is room again and at the end

	answers sync.WaitGroup // those that are being written by who gives them

	wake chan struct{} // room for one
	done chan struct{} // closed when the goroutine has ended
}

type outboxState int

const (
	outboxOpen     outboxState = iota
	outboxClosing              // takes nothing more; urgent requests are still written
	outboxFinished             // nothing will be written
)

// waiting is a start in the queue.
type waiting struct {
	id      uint64
	text    []byte
	files   []*os.File
	failed  func(error)
	writing bool // nobody can withdraw it any more
}

// urgency is equal for requests that are merged: all ends of a tree, and equal signals.
type urgency struct {
	id     uint64
	end    bool
	number syscall.Signal
	group  int
}

// NewOutbox begins to write to a connection. Nobody else may write to it from then on.
func NewOutbox(conn *Conn) *Outbox {
	o := &Outbox{conn: conn, merged: map[urgency]*Request{}, moved: make(chan struct{}),
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	go o.write()
	return o
}

// Start queues a start, a plan or the withdrawal of a plan. It waits for room until ctx ends or the connection
// breaks. If the request cannot be written later, failed is called with the reason. The files are
// used until Holds is false, or the request was withdrawn.
func (o *Outbox) Start(ctx context.Context, request *Request, failed func(error), files ...*os.File) error {
	text, err := encode(make([]byte, 0, request.room()), request)
	if err != nil {
		return err
	}
	w := &waiting{id: request.ID, text: text, files: files, failed: failed}
	for {
		moved, err := o.queue(w)
		if moved == nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// queue takes a start, or returns a channel that is closed when it is worth trying again.
func (o *Outbox) queue(w *waiting) (moved <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != outboxOpen {
		return nil, ErrBroken
	}
	if len(o.starts) > 0 && (o.bytes+len(w.text) > maxStartBytes || o.files+len(w.files) > maxStartFiles) {
		return o.moved, nil
	}
	o.starts = append(o.starts, w)
	o.bytes, o.files = o.bytes+len(w.text), o.files+len(w.files)
	o.rouse()
	return nil, nil
}

// Withdraw removes a start that has not begun to be written, and reports whether it did.
func (o *Outbox) Withdraw(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, w := range o.starts {
		if w.id == id && !w.writing {
			o.remove(i)
			return true
		}
	}
	return false
}

// Holds reports whether a start has not been written as a whole, or its files are still in use. That can be so for a moment after
// the answer has come.
func (o *Outbox) Holds(id uint64) bool {
	_, held := o.holds(id)
	return held
}

// AwaitFiles waits until an answered start no longer uses its files.
func (o *Outbox) AwaitFiles(id uint64) {
	for {
		moved, held := o.holds(id)
		if !held {
			return
		}
		<-moved
	}
}

func (o *Outbox) holds(id uint64) (moved <-chan struct{}, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.moved, o.state != outboxFinished && slices.ContainsFunc(o.starts, func(w *waiting) bool { return w.id == id })
}

// remove is called with o.mu held.
func (o *Outbox) remove(i int) {
	w := o.starts[i]
	o.starts = append(o.starts[:i:i], o.starts[i+1:]...)
	o.bytes, o.files = o.bytes-len(w.text), o.files-len(w.files)
	o.announce()
}

// announce is called with o.mu held.
func (o *Outbox) announce() {
	close(o.moved)
	o.moved = make(chan struct{})
}

// Signal queues a signal. A signal to a dead warden's tree is lost with the tree.
func (o *Outbox) Signal(id uint64, signal Signal) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != outboxOpen {
		return ErrBroken
	}
	key := urgency{id: id, number: signal.Number, group: signal.Group}
	if o.merged[key] != nil {
		return nil
	}
	if len(o.urgent) >= maxSignals {
		return ErrFull
	}
	request := &Request{ID: id, Signal: &signal}
	if signal.Number < realTime {
		o.merged[key] = request
	}
	o.urgent = append(o.urgent, request)
	o.rouse()
	return nil
}

// End queues the end of a tree. If several are queued, the shortest grace counts.
func (o *Outbox) End(id uint64, end End) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != outboxOpen {
		return
	}
	key := urgency{id: id, end: true}
	if before := o.merged[key]; before != nil {
		before.End.Grace = min(before.End.Grace, end.Grace)
		return
	}
	request := &Request{ID: id, End: &end}
	o.merged[key] = request
	o.urgent = append(o.urgent, request)
	o.rouse()
}

// Judge writes an answer about an execution, which waits for it: the goroutine of the outbox would be one wake more. The other side bounds
// the questions, and so those who answer.
func (o *Outbox) Judge(id uint64, answer Judged) {
	o.mu.Lock()
	open := o.state == outboxOpen
	if open {
		o.answers.Add(1)
	}
	o.mu.Unlock()
	if !open {
		return
	}
	defer o.answers.Done()
	text, _ := encode(nil, &Request{ID: id, Judged: &answer}) // it is small
	if err := o.conn.sendEncoded(text, nil); err != nil {
		o.fail()
	}
}

func (o *Outbox) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Close refuses further requests, drops the starts that wait, and lets the other side read end-of-file after the urgent requests. If
// these are not written in the given time, end-of-file may come in the middle of a message.
func (o *Outbox) Close(most time.Duration) {
	o.mu.Lock()
	o.state = max(o.state, outboxClosing)
	o.announce()
	o.rouse()
	o.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
	_ = o.conn.CloseWrite() // this fails a write under way
}

// Abort ends the outbox of a connection that was closed. When it returns, nothing more is written and the goroutine has ended.
func (o *Outbox) Abort() {
	o.mu.Lock()
	o.state = outboxFinished
	o.announce()
	o.rouse()
	o.mu.Unlock()
	<-o.done
}

// write is the goroutine. It ends with the connection.
func (o *Outbox) write() {
	defer close(o.done)
	defer o.answers.Wait() // end-of-file comes after them
	for {
		text, start, over := o.next()
		switch {
		case over:
			return
		case start != nil:
			o.send(start)
		case text != nil:
			if err := o.conn.sendEncoded(text, nil); err != nil { // without descriptors, every error is the connection's
				o.fail()
			}
		default:
			<-o.wake
		}
	}
}

// next returns what to write: all urgent requests, or one start.
func (o *Outbox) next() (text []byte, start *waiting, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == outboxFinished {
		return nil, nil, true
	}
	for _, request := range o.urgent {
		text, _ = encode(text, request) // the request is small
	}
	if o.urgent != nil {
		o.urgent = nil
		clear(o.merged)
		return text, nil, false
	}
	if o.state == outboxClosing {
		return nil, nil, true
	}
	if len(o.starts) == 0 {
		return nil, nil, false
	}
	o.starts[0].writing = true
	return nil, o.starts[0], false
}

func (o *Outbox) send(w *waiting) {
	err := Hold(w.files, func(fds []int) error { return o.conn.sendEncoded(w.text, fds) })
	o.mu.Lock()
	o.remove(0)
	o.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, ErrBroken):
		o.fail()
	default:
		w.failed(err)
	}
}

// fail closes a broken connection. The connection's reader notices, too, and answers the requests that wait.
func (o *Outbox) fail() {
	_ = o.conn.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = outboxFinished
	o.announce()
	o.rouse()
}
