package execbus

import (
	"context"
	"sync/atomic"
	"time"
)

// outletQueue bounds the calls that wait for one kind of the host's code.
const outletQueue = 1024

// outletRest is how long an idle outlet collects calls before it makes them: waking its goroutine for each count of
// each command would cost more than the counting.
const outletRest = 2 * time.Millisecond

// outlet runs one kind of the host's code whose result is not needed, its logger or its instruments, in one goroutine and in
// order. Submitting never waits: a call that finds the queue full is dropped, and after a panic all calls are. Code that
// blocks forever keeps that one goroutine.
type outlet struct {
	queue  chan func()
	closed chan struct{} // no more calls are taken; those in the queue are still made
	ended  chan struct{} // the goroutine is gone

	// These are atomics because they are only counted and read: a message would need a queue that is never full.
	broken  atomic.Bool
	dropped atomic.Uint64
}

func newOutlet() *outlet {
	o := &outlet{queue: make(chan func(), outletQueue), closed: make(chan struct{}), ended: make(chan struct{})}
	go o.run()
	return o
}

// submit queues do, or drops and counts it.
func (o *outlet) submit(do func()) {
	if !o.try(do) {
		o.dropped.Add(1)
	}
}

// try is submit without the count; it reports whether do was queued.
func (o *outlet) try(do func()) bool {
	if o.broken.Load() {
		return false
	}
	select {
	case <-o.closed:
		return false
	default:
	}
	select {
	case o.queue <- do:
		return true
	default:
		return false
	}
}

func (o *outlet) run() {
	defer close(o.ended)
	defer o.drop() // deferred, because the host's code may end its goroutine
	rest := time.NewTimer(outletRest)
	defer rest.Stop()
	for {
		select {
		case do := <-o.queue:
			o.do(do)
			o.finish()
		case <-o.closed:
			o.finish()
			return
		}
		rest.Reset(outletRest)
		select {
		case <-rest.C:
		case <-o.closed:
		}
	}
}

// finish makes the remaining calls.
func (o *outlet) finish() {
	for {
		select {
		case do := <-o.queue:
			o.do(do)
		default:
			return
		}
	}
}

// drop counts the remaining calls as dropped.
func (o *outlet) drop() {
	o.broken.Store(true)
	o.finish()
}

func (o *outlet) do(do func()) {
	done := false
	defer func() {
		_ = recover()
		if !done {
			o.broken.Store(true)
			o.dropped.Add(1)
		}
	}()
	if !o.broken.Load() {
		do()
		done = true
	}
}

// close ends the outlet and waits until the queued calls are made or ctx ends. It may be called once.
func (o *outlet) close(ctx context.Context) {
	close(o.closed)
	select {
	case <-o.ended:
	case <-ctx.Done():
		o.broken.Store(true) // if the code ever returns, the rest is dropped
	}
}

// closeAll is close for several at once, with a bound.
func closeAll(patience time.Duration, outlets ...*outlet) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, o := range outlets {
		o.close(ctx)
	}
}
