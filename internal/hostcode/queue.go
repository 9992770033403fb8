package hostcode

import (
	"context"
	"sync/atomic"
	"time"
)

// queued bounds the calls that wait in a queue.
const queued = 1024

// rest is how long an idle queue collects calls before it makes them: waking its goroutine for each count of each command would cost
// more than the counting.
const rest = 2 * time.Millisecond

// Queue makes calls whose results nobody needs, in one goroutine and in order. Submitting never waits: a call that finds the queue
// full is dropped, and after a panic all calls are. Code that blocks forever keeps that one goroutine.
type Queue struct {
	calls  chan func()
	closed chan struct{} // no more calls are taken; those that wait are still made
	ended  chan struct{} // the goroutine is gone

	// These are atomics because they are only counted and read: a message would need a queue that is never full.
	broken  atomic.Bool
	dropped atomic.Uint64
}

// NewQueue starts a queue. It must be closed.
func NewQueue() *Queue {
	q := &Queue{calls: make(chan func(), queued), closed: make(chan struct{}), ended: make(chan struct{})}
	Call[struct{}]{Do: func(context.Context) (none struct{}, _ error) {
		q.run()
		return none, nil
	}}.Go(context.Background(), func(_ struct{}, err error) {
		if err != nil { // it was in a call
			q.broken.Store(true)
			q.dropped.Add(1)
			q.finish()
		}
		close(q.ended)
	})
	return q
}

// Dropped counts the calls that were submitted and not made.
func (q *Queue) Dropped() uint64 { return q.dropped.Load() }

// Submit queues a call, or drops and counts it.
func (q *Queue) Submit(call func()) {
	select {
	case <-q.closed:
		q.dropped.Add(1)
		return
	default:
	}
	if q.broken.Load() {
		q.dropped.Add(1)
		return
	}
	select {
	case q.calls <- call:
	default:
		q.dropped.Add(1)
	}
}

func (q *Queue) run() {
	pause := time.NewTimer(rest)
	defer pause.Stop()
	for {
		select {
		case call := <-q.calls:
			q.make(call)
			q.finish()
		case <-q.closed:
			q.finish()
			return
		}
		pause.Reset(rest)
		select {
		case <-pause.C:
		case <-q.closed:
		}
	}
}

// finish makes the calls that wait.
func (q *Queue) finish() {
	for {
		select {
		case call := <-q.calls:
			q.make(call)
		default:
			return
		}
	}
}

func (q *Queue) make(call func()) {
	if q.broken.Load() {
		q.dropped.Add(1)
		return
	}
	call()
}

// CloseAll ends queues and waits until the calls in them are made, or the time is over.
func CloseAll(patience time.Duration, queues ...*Queue) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, q := range queues {
		close(q.closed)
	}
	for _, q := range queues {
		select {
		case <-q.ended:
		case <-ctx.Done():
			q.broken.Store(true) // if the code ever returns, the rest is dropped
		}
	}
}
