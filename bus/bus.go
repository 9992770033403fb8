package bus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/execbus/execbus/messages"
)

// Options configures a Bus. The zero value is useful.
type Options struct {
	// MaxSubscriptions bounds how many subscriptions may be open at once; 0 or less means any number.
	MaxSubscriptions int
}

// Bus distributes events to subscriptions. Make one with New. All methods may be called from any goroutine.
type Bus struct {
	options Options

	// directory knows the open subscriptions; nil once the bus is closed. Publishers load it and take no lock.
	directory atomic.Pointer[directory]
	// change is held while directory is replaced. A message would not do: a subscription must be in the directory when
	// Subscribe returns, and out of it when Close returns.
	change sync.Mutex

	published atomic.Uint64
	dropped   atomic.Uint64
}

// New makes a bus.
func New(options Options) *Bus {
	b := &Bus{options: options}
	b.directory.Store(&directory{sessions: map[messages.SessionID][]*Subscription{}})
	return b
}

// publication is an event on its way to the subscriptions, with the values that each of them checks.
type publication struct {
	event  messages.Event
	delta  messages.OutputDelta // if event is nil, it is made from delta once a subscription wants it
	kind   messages.EventKind
	from   messages.Origin
	output bool
	size   int     // the capacity of output's bytes, the weight of other events
	credit *Credit // of output; may be nil

	dropped int             // events that were lost to make room for this one
	overrun []*Subscription // subscriptions that ended because of it
}

// Publish hands ev to every subscription that wants it. It never waits for a subscriber. ev is a value of package messages,
// not a pointer to one. Nobody may change it, or anything that it points to, afterwards.
//
// An OutputDelta published this way has no credit; see PublishOutput. On a closed bus Publish does nothing.
func (b *Bus) Publish(ev messages.Event) {
	if output, ok := ev.(messages.OutputDelta); ok {
		b.publish(&publication{event: ev, kind: messages.KindOutputDelta, from: output.Origin, output: true,
			size: cap(output.Bytes)})
		return
	}
	b.publish(&publication{event: ev, kind: ev.Kind(), from: ev.From(), size: messages.Weight(ev)})
}

// PublishOutput is Publish for output under flow control. Every lossless subscription that wants ev holds all credits until
// its subscriber is done with ev. There are several credits if ev is made of the bytes of several batches. Nil credits are
// ignored. The caller keeps its own holds, may publish more events with the same credits, and must release them in the end,
// even if the bus was closed.
//
// The caller must not change ev.Bytes afterwards: subscribers share them. The bounds count the capacity of ev.Bytes, so it
// should be a copy of exact size, of at most messages.MaxOutputDelta bytes.
func (b *Bus) PublishOutput(ev messages.OutputDelta, credits ...*Credit) {
	credit := join(credits)
	b.publish(&publication{delta: ev, kind: messages.KindOutputDelta, from: ev.Origin, output: true, size: cap(ev.Bytes),
		credit: credit})
	if len(credits) > 1 {
		credit.Release()
	}
}

func (b *Bus) publish(p *publication) {
	d := b.directory.Load()
	if d == nil {
		return
	}
	b.published.Add(1)
	for _, list := range d.candidates(p.from.Session) {
		p.deliver(list)
	}
	if p.dropped > 0 {
		b.dropped.Add(uint64(p.dropped))
	}
	if p.overrun != nil {
		b.remove(p.overrun...)
	}
}

func (p *publication) deliver(list []*Subscription) {
	for _, s := range list {
		if !s.filter.matches(p.kind, &p.from) {
			continue
		}
		if p.event == nil {
			p.event = p.delta
		}
		lost, fits := s.offer(p)
		p.dropped += lost
		if !fits {
			p.overrun = append(p.overrun, s)
		}
	}
}

// Subscribe opens a subscription for the events that pass f. The caller must Close it. Errors: messages.ErrInvalidRequest
// with the name of the field, ErrClosed on a closed bus, and ErrLimitReached.
func (b *Bus) Subscribe(f Filter, options SubscribeOptions) (*Subscription, error) {
	f, err := f.compile()
	if err != nil {
		return nil, err
	}
	if options, err = options.withDefaults(); err != nil {
		return nil, err
	}
	s := newSubscription(b, f, options)
	if err := b.admit(s); err != nil {
		return nil, err
	}
	return s, nil
}

func (b *Bus) admit(s *Subscription) error {
	b.change.Lock()
	defer b.change.Unlock()
	d := b.directory.Load()
	if d == nil {
		return &messages.Error{Code: messages.ErrClosed, Op: "subscribe", Detail: "the bus is closed"}
	}
	if b.options.MaxSubscriptions > 0 && d.open >= b.options.MaxSubscriptions {
		return &messages.Error{Code: messages.ErrLimitReached, Op: "subscribe",
			Detail: fmt.Sprintf("all %d subscriptions of the bus are in use; close one first", b.options.MaxSubscriptions)}
	}
	s.listed = true
	b.directory.Store(d.with(s))
	return nil
}

// remove takes subscriptions that have ended out of the directory, each once.
func (b *Bus) remove(ended ...*Subscription) {
	b.change.Lock()
	defer b.change.Unlock()
	d := b.directory.Load()
	if d == nil {
		return
	}
	gone := slices.DeleteFunc(ended, func(s *Subscription) bool { return !s.listed })
	for _, s := range gone {
		s.listed = false
	}
	if len(gone) > 0 {
		b.directory.Store(d.without(gone))
	}
}

// Listening reports whether an event of that kind and origin would reach a subscription that names the kind in its Filter. A
// subscription that takes every kind does not count, nor does one of an observer. The answer holds only for the moment of the call.
func (b *Bus) Listening(kind messages.EventKind, from messages.Origin) bool {
	return b.named(kind, from, func(s *Subscription) bool { return !s.looks })
}

// Wanted is Listening for a publisher that needs no answer: observers count, too.
func (b *Bus) Wanted(kind messages.EventKind, from messages.Origin) bool {
	return b.named(kind, from, func(*Subscription) bool { return true })
}

// named reports whether a subscription names a kind and counts.
func (b *Bus) named(kind messages.EventKind, from messages.Origin, counts func(*Subscription) bool) bool {
	d := b.directory.Load()
	if d == nil {
		return false
	}
	for _, list := range d.candidates(from.Session) {
		for _, s := range list {
			if slices.Contains(s.filter.Kinds, kind) && s.filter.matches(kind, &from) && !s.ended.Load() && counts(s) {
				return true
			}
		}
	}
	return false
}

// Close ends all subscriptions. They release their credits at once; their queued events can still be read, and after those
// they answer messages.ErrClosed. Close does not wait for readers. Further calls do nothing.
func (b *Bus) Close() {
	b.change.Lock()
	d := b.directory.Swap(nil)
	b.change.Unlock()
	if d == nil {
		return
	}
	for _, s := range d.everywhere {
		s.finish(errBusClosed)
	}
	for _, list := range d.sessions {
		for _, s := range list {
			s.finish(errBusClosed)
		}
	}
}

// CloseSession ends the subscriptions that name this session and no other, as Close does. A subscription that also names the
// empty session, for events of no session, ends as well. Later events of the session reach only the remaining subscriptions.
func (b *Bus) CloseSession(session messages.SessionID) {
	d := b.directory.Load()
	if d == nil {
		return
	}
	var ended []*Subscription
	for _, s := range d.sessions[session] {
		if !slices.ContainsFunc(s.filter.Sessions, func(other messages.SessionID) bool { return other != session && other != "" }) {
			s.finish(errSessionClosed)
			ended = append(ended, s)
		}
	}
	b.remove(ended...)
}

// Stats are the counts of a bus.
type Stats struct {
	Subscriptions int    // open now
	Published     uint64 // events published since New
	Dropped       uint64 // output events and inputs lost, counted once for each subscription that lost one
}

// Stats returns the counts. They are read one after the other, so they are not a snapshot.
func (b *Bus) Stats() Stats {
	s := Stats{Published: b.published.Load(), Dropped: b.dropped.Load()}
	if d := b.directory.Load(); d != nil {
		s.Subscriptions = d.open
	}
	return s
}

func cancelled(ctx context.Context) error {
	return &messages.Error{Code: messages.ErrCancelled, Op: "read events", Detail: context.Cause(ctx).Error(),
		Like: messages.LikeOf(ctx.Err())}
}
