package bus

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/execbus/execbus/messages"
)

// Bounds of a subscription.
const (
	DefaultOutputs     = 1024     // output events and inputs
	MaxOutputs         = 1 << 20  // output events and inputs
	DefaultOutputBytes = 4 << 20  // bytes
	MaxOutputBytes     = 1 << 30  // bytes
	MaxLifecycle       = 4096     // events that must not be lost
	MaxGaps            = 4096     // processes with an unread gap
	MaxWeight          = 64 << 20 // bytes that lifecycle events and gaps keep alive, as messages.Weight counts them
)

// SubscribeOptions configures a Subscription. The zero value is useful.
type SubscribeOptions struct {
	// Name names the subscription in errors; it may be empty.
	Name string
	// Outputs is how many outputs and inputs may wait, 1 to MaxOutputs; 0 means DefaultOutputs.
	Outputs int
	// OutputBytes is how many bytes they may have together, messages.MaxOutputDelta to MaxOutputBytes; 0 means
	// DefaultOutputBytes. An output counts with the capacity of its bytes, an input with its weight.
	OutputBytes int
	// Lossless makes publishers wait instead of dropping output. A lossless subscriber that stops reading makes the
	// process wait. The bounds above then apply only to output that is published without a credit, and inputs count as
	// lifecycle events.
	Lossless bool
	// Observer says that the subscriber answers nothing: Bus.Listening does not count it, whatever kinds it names.
	Observer bool
}

func (o SubscribeOptions) withDefaults() (SubscribeOptions, error) {
	if o.Outputs == 0 {
		o.Outputs = DefaultOutputs
	}
	if o.OutputBytes == 0 {
		o.OutputBytes = DefaultOutputBytes
	}
	if err := inRange("Outputs", o.Outputs, 1, MaxOutputs); err != nil {
		return o, err
	}
	return o, inRange("OutputBytes", o.OutputBytes, messages.MaxOutputDelta, MaxOutputBytes)
}

func inRange(field string, v, low, high int) error {
	if low <= v && v <= high {
		return nil
	}
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "subscribe", Subject: "SubscribeOptions." + field,
		Detail: fmt.Sprintf("%d is out of range; use %d to %d, or 0 for the default", v, low, high)}
}

var (
	errClosed = &messages.Error{Code: messages.ErrClosed, Op: "read events", Detail: "the subscription is closed"}

	errEnded = &messages.Error{Code: messages.ErrClosed, Op: "read events", Detail: "the subscription was ended"}

	errSessionClosed = &messages.Error{Code: messages.ErrClosed, Op: "read events", Detail: "the session is closed"}

	errBusClosed = &messages.Error{Code: messages.ErrClosed, Op: "read events", Detail: "the bus is closed"}
)

// Subscription is one subscriber's queue. All methods may be called from any goroutine. If several goroutines read, each
// event goes to one of them. Asking for the next event releases the previous one, whichever goroutine got it.
type Subscription struct {
	bus    *Bus
	name   string
	filter Filter
	looks  bool // it is an observer's
	listed bool // in the directory; belongs to the holder of the bus's lock

	// A publisher holds this lock for the few instructions that put one event into the queue. A message would not do: an
	// unbounded mailbox would defeat the queue's bound, and a bounded one would block the publisher. No function that can
	// wait or take another lock is called while it is held.
	mu       sync.Mutex
	queue    queue
	handling *Credit // held for the event that was returned last
	waiting  int     // readers in Next that have found nothing
	err      error   // why no more events come in; nil while open

	ended atomic.Bool   // err is set; read without the lock
	wake  chan struct{} // capacity 1: something was queued
	done  chan struct{} // closed when err is set
}

func newSubscription(b *Bus, f Filter, o SubscribeOptions) *Subscription {
	return &Subscription{
		bus: b, name: o.Name, filter: f, looks: o.Observer,
		queue: queue{
			limits:   limits{outputs: o.Outputs, bytes: o.OutputBytes, lifecycle: MaxLifecycle, gaps: MaxGaps, weight: MaxWeight},
			lossless: o.Lossless,
			open:     map[processKey]*gap{},
		},
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
}

func (s *Subscription) errOverrun() error {
	return &messages.Error{Code: messages.ErrSlowSubscriber, Op: "read events", Subject: s.name,
		Detail: "the subscription ended because more events waited than it can keep; read faster or select fewer events, and subscribe again"}
}

// offer queues an event. It reports how many events were dropped to make room, and false if the subscription ended because
// there was no room.
func (s *Subscription) offer(p *publication) (dropped int, fits bool) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return 0, true
	}
	dropped, fits = s.queue.add(p)
	if !fits {
		held := s.stop(s.errOverrun())
		s.mu.Unlock()
		dropAll(held)
		return dropped, false
	}
	wake := s.waiting > 0
	s.mu.Unlock()
	if wake {
		s.signal()
	}
	return dropped, true
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is already due
	}
}

// Next returns the next event, and waits if none is queued. Asking for the next event says that the caller is done with the
// previous one; in a lossless subscription this releases its credit.
//
// Errors: messages.ErrCancelled when ctx has ended, even if events are queued; no event is taken, and Next may be called
// again. messages.ErrClosed after Close, or after Bus.Close once all queued events have been read.
// messages.ErrSlowSubscriber once all queued events of a subscription that fell too far behind have been read. The last two
// are final.
func (s *Subscription) Next(ctx context.Context) (messages.Event, error) {
	for waited := false; ; waited = true {
		if ctx.Err() != nil {
			s.leave(waited)
			return nil, cancelled(ctx)
		}
		if ev, err := s.take(waited, true); ev != nil || err != nil {
			return ev, err
		}
		select {
		case <-s.wake:
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// TryNext is Next without waiting: it reports false if nothing is queued. A final error also comes with false.
func (s *Subscription) TryNext() (ev messages.Event, ok bool, err error) {
	ev, err = s.take(false, false)
	return ev, ev != nil, err
}

// All yields the events one after the other as Next does, and at the end the final error with a nil event. A caller may
// leave the loop and begin another one. Leaving the loop says that the caller is done with the last event.
func (s *Subscription) All(ctx context.Context) iter.Seq2[messages.Event, error] {
	return func(yield func(messages.Event, error) bool) {
		for {
			ev, err := s.Next(ctx)
			if !yield(ev, err) || err != nil {
				s.handled()
				return
			}
		}
	}
}

// take returns the next queued event. If none is queued it returns the final error, or nil and no error while the
// subscription is open; then the reader counts as waiting if it will.
func (s *Subscription) take(waited, willWait bool) (messages.Event, error) {
	s.mu.Lock()
	previous := s.handling
	var ev messages.Event
	ev, s.handling = s.queue.take()
	err := s.err
	if waited {
		s.waiting--
	}
	if ev != nil {
		err = nil
	} else if err == nil && willWait {
		s.waiting++
	}
	more := s.another()
	s.mu.Unlock()
	if previous != nil {
		previous.Drop()
	}
	if more {
		s.signal()
	}
	return ev, err
}

// leave is for a reader that does not wait any longer.
func (s *Subscription) leave(waited bool) {
	s.handled()
	if !waited {
		return
	}
	s.mu.Lock()
	s.waiting--
	more := s.another() // the wake-up that this reader got may have been meant for them
	s.mu.Unlock()
	if more {
		s.signal()
	}
}

// another reports whether another reader has to be woken: one wake-up may stand for several events.
func (s *Subscription) another() bool { return s.waiting > 0 && !s.queue.empty() }

// handled gives back the credit of the event that was returned last.
func (s *Subscription) handled() {
	s.mu.Lock()
	credit := s.handling
	s.handling = nil
	s.mu.Unlock()
	if credit != nil {
		credit.Drop()
	}
}

// Close ends the subscription at once: queued events are discarded, credits are released, and every Next, including a
// waiting one, returns messages.ErrClosed. Further calls do nothing.
func (s *Subscription) Close() {
	s.mu.Lock()
	if s.err == errClosed {
		s.mu.Unlock()
		return
	}
	held := s.stop(errClosed)
	s.queue = queue{}
	s.mu.Unlock()
	dropAll(held)
	s.bus.remove(s)
}

// End ends the subscription but leaves queued events to be read: no more events come in, credits are released, and after the
// last queued event Next returns messages.ErrClosed. Further calls do nothing.
func (s *Subscription) End() {
	s.finish(errEnded)
	s.bus.remove(s)
}

// finish ends the subscription and leaves the queue to be read.
func (s *Subscription) finish(why error) {
	s.mu.Lock()
	var held []*Credit
	if s.err == nil {
		held = s.stop(why)
	}
	s.mu.Unlock()
	dropAll(held)
}

// stop lets no more events in and returns the credits to release. The caller holds the lock.
func (s *Subscription) stop(why error) []*Credit {
	if s.err == nil {
		s.ended.Store(true)
		close(s.done)
	}
	s.err = why
	held := s.queue.surrender()
	if s.handling != nil {
		held = append(held, s.handling)
		s.handling = nil
	}
	return held
}
