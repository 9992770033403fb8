package client

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// Bounds on calls. Calls that clean up have places of their own, so that they succeed however many other calls wait.
const (
	maxCalls    = 1024
	maxCleaning = 1024
	maxGiven    = 1024            // calls that were given up and may still be answered; a server that owes more counts as gone
	maxNotices  = 256             // messages without an answer that wait
	maxAcks     = 2 * maxChildren // processes with an acknowledgement that waits: more are dropped
)

// call is one request.
type call struct {
	number int64
	id     wire.ID
	text   []byte // the whole message
	// again says that the call may be sent again after a cut: the server recognises it, or the repetition has no effect.
	again    bool
	cleaning bool
	sent     bool // on this connection
	resent   bool // it may have been sent on an earlier connection
	// done takes the result, once, in a goroutine of the link. It must not block.
	done func(result []byte, err error)
}

func (c *call) finish(result []byte, err error) { c.done(result, err) }

// start queues a call and does not wait for it. done gets its outcome, unless start fails.
func (l *link) start(c *call, method string, params any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.life.Err() != nil {
		return disconnected(context.Cause(l.life))
	}
	if l.crowded(c.cleaning) {
		return errCrowded
	}
	l.last++
	c.number, c.id = l.last, wire.NumberID(l.last)
	var err error
	if c.text, err = wire.AppendRequest(nil, c.id, method, params); err != nil {
		return failed(method, err.Error())
	}
	l.calls[c.id] = c
	l.queue = append(l.queue, c)
	l.poke()
	return nil
}

// crowded reports whether there is no place for another call. The lock is held.
func (l *link) crowded(cleaning bool) bool {
	if cleaning {
		return len(l.calls) >= maxCalls+maxCleaning
	}
	return len(l.calls) >= maxCalls
}

// ask makes a call and waits until its done has taken the result. If ctx ends first, the call is withdrawn; the server may still have received it.
func (l *link) ask(ctx context.Context, c *call, method string, params any) ([]byte, error) {
	came := make(chan outcome, 1)
	take := c.done
	c.done = func(result []byte, err error) {
		if take != nil {
			take(result, err)
		}
		came <- outcome{result, err}
	}
	if err := ctx.Err(); err != nil {
		return nil, cancelled(method, err)
	}
	if err := l.start(c, method, params); err != nil {
		return nil, err
	}
	select {
	case o := <-came:
		return o.result, o.err
	case <-ctx.Done():
		if l.giveUp(c) {
			return nil, cancelled(method, ctx.Err())
		}
		o := <-came // the answer has arrived
		return o.result, o.err
	}
}

// mayHaveArrived reports whether a call that was withdrawn may have reached the server.
func (l *link) mayHaveArrived(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.sent || c.resent
}

// withdraw withdraws a call that has certainly not arrived.
func (l *link) withdraw(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] != c || c.sent || c.resent {
		return false
	}
	l.remove(c)
	return true
}

// remove forgets a call. The lock is held.
func (l *link) remove(c *call) {
	delete(l.calls, c.id)
	l.queue = slices.DeleteFunc(l.queue, func(other *call) bool { return other == c })
}

// giveUp withdraws a call. It returns false if the result has already arrived; done has received it or will.
func (l *link) giveUp(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] != c {
		return false
	}
	l.remove(c)
	if c.sent {
		l.given[c.id] = true
		if len(l.given) > maxGiven {
			l.cut(broken(errors.New("it owes too many answers")))
		}
	}
	return true
}

// acknowledge tells the server that it need not keep the events of a process up to seq. Only the last acknowledgement counts.
func (l *link) acknowledge(process string, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.acks[process]; !l.closed && l.has(wire.ExtensionFlow) && (waits || len(l.acks) < maxAcks) {
		l.acks[process] = seq
		l.poke()
	}
}

// notify queues an answer to a request of the server. The answer belongs to this connection only. notify reports whether there was
// room.
func (l *link) notify(text []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.notices) >= maxNotices {
		return false
	}
	l.notices = append(l.notices, text)
	l.poke()
	return true
}

// poke wakes the writer.
func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// pop returns the next message to send; nil if there is none.
func (l *link) pop() (text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for process, seq := range l.acks {
		delete(l.acks, process)
		text, _ = wire.AppendNotification(nil, wire.ProcessAcknowledge, wire.AcknowledgeParams{ProcessID: process, Seq: seq})
		return text
	}
	switch {
	case len(l.notices) > 0:
		text, l.notices = l.notices[0], l.notices[1:]
	case len(l.queue) > 0:
		c := l.queue[0]
		l.queue = l.queue[1:]
		c.sent = true
		text = c.text
	}
	return text
}

// resume puts the calls that have no answer yet on a new connection, in their order. A call that might do something twice fails
// if the old connection may have carried it.
func (l *link) resume() {
	l.mu.Lock()
	l.queue, l.notices = nil, nil
	clear(l.given)
	var uncertain []*call
	for id, c := range l.calls {
		if c.sent && !c.again {
			uncertain = append(uncertain, c)
			delete(l.calls, id)
			continue
		}
		c.resent, c.sent = c.resent || c.sent, false
		l.queue = append(l.queue, c)
	}
	slices.SortFunc(l.queue, func(a, b *call) int { return cmp.Compare(a.number, b.number) })
	l.mu.Unlock()
	for _, c := range uncertain {
		c.finish(nil, errUncertain)
	}
	l.resumed()
	l.poke()
}

// answered removes and returns the call to which a response belongs; nil if the call was given up.
func (l *link) answered(id wire.ID) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[id]; c != nil && c.sent {
		delete(l.calls, id)
		return c, nil
	}
	if l.given[id] {
		delete(l.given, id)
		return nil, nil
	}
	return nil, violation("it answered request %.40s, which it was not asked", id)
}
