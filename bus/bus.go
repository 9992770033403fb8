package bus

import (
	"bytes"
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

	// routes is the list of open subscriptions; nil once the bus is closed. Publishers load it and take no lock. A list
	// never changes within its length, so one that is being walked stays as it was.
	routes atomic.Pointer[[]route]
	change sync.Mutex // held while routes is replaced

	published atomic.Uint64
	dropped   atomic.Uint64
}

// New makes a bus.
func New(options Options) *Bus {
	b := &Bus{options: options}
	b.routes.Store(new([]route))
	return b
}

// publication is an event on its way, with what every subscription has to look at.
type publication struct {
	event  messages.Event
	lent   messages.OutputDelta // what event is made of when somebody wants it, if that is nil
	kind   messages.EventKind
	from   messages.Origin
	output bool
	size   int     // bytes of output, or of an end's transcript
	credit *Credit // of output; may be nil
}

// Publish hands ev to every subscription that wants it. It never waits for a subscriber. ev is a value of package
// messages, not a pointer to one, and neither it nor what it points to may be changed afterwards.
//
// An OutputDelta published this way has no credit; see PublishOutput. On a closed bus Publish does nothing.
func (b *Bus) Publish(ev messages.Event) {
	if output, ok := ev.(messages.OutputDelta); ok {
		b.publish(&publication{event: ev, kind: messages.KindOutputDelta, from: output.Origin, output: true,
			size: len(output.Bytes)})
		return
	}
	p := &publication{event: ev, kind: ev.Kind(), from: ev.From()}
	if end, ok := ev.(messages.ExecEnded); ok {
		p.size = len(end.Transcript)
	}
	b.publish(p)
}

// PublishOutput is Publish for output under flow control: every lossless subscription that wants ev holds credit until
// its subscriber is done with ev. credit may be nil. The caller keeps its own hold, may publish more with the same
// credit, and releases it in the end, whatever became of the bus. ev.Bytes are only lent: they are copied if somebody wants
// them.
func (b *Bus) PublishOutput(ev messages.OutputDelta, credit *Credit) {
	b.publish(&publication{lent: ev, kind: messages.KindOutputDelta, from: ev.Origin, output: true,
		size: len(ev.Bytes), credit: credit})
}

func (b *Bus) publish(p *publication) {
	routes := b.routes.Load()
	if routes == nil {
		return
	}
	b.published.Add(1)
	dropped, overrun := 0, false
	for i := range *routes {
		r := &(*routes)[i]
		if r.skips(p) || !r.sub.filter.matches(p.kind, &p.from) {
			continue
		}
		if p.event == nil {
			p.lent.Bytes = bytes.Clone(p.lent.Bytes)
			p.event = p.lent
		}
		lost, fits := r.sub.offer(p)
		dropped += lost
		overrun = overrun || !fits
	}
	if dropped > 0 {
		b.dropped.Add(uint64(dropped))
	}
	if overrun {
		b.remove(func(s *Subscription) bool { return s.ended.Load() })
	}
}

// Subscribe opens a subscription for the events that pass f. The caller must Close it. Errors: messages.ErrInvalidRequest
// naming the field, ErrClosed on a closed bus, ErrCancelled where the options' Context has already ended, and
// ErrLimitReached.
func (b *Bus) Subscribe(f Filter, options SubscribeOptions) (*Subscription, error) {
	f, err := f.compile()
	if err != nil {
		return nil, err
	}
	if options, err = options.withDefaults(); err != nil {
		return nil, err
	}
	if options.Context.Err() != nil {
		return nil, cancelled("subscribe", options.Context)
	}
	s := newSubscription(b, f, options)
	if err := b.admit(s); err != nil {
		return nil, err
	}
	s.closeAfter(options.Context)
	return s, nil
}

func (b *Bus) admit(s *Subscription) error {
	b.change.Lock()
	defer b.change.Unlock()
	old := b.routes.Load()
	if old == nil {
		return &messages.Error{Code: messages.CodeClosed, Op: "subscribe", Detail: "the bus is closed"}
	}
	if b.options.MaxSubscriptions > 0 && len(*old) >= b.options.MaxSubscriptions {
		return &messages.Error{Code: messages.CodeLimitReached, Op: "subscribe",
			Detail: fmt.Sprintf("all %d subscriptions of the bus are in use", b.options.MaxSubscriptions),
			Hint:   "close one first"}
	}
	// Appending in place is safe: whoever walks the old list does not look behind its length, and only the newest list
	// is ever appended to.
	list := append(*old, newRoute(s))
	b.routes.Store(&list)
	return nil
}

// remove takes subscriptions off the list.
func (b *Bus) remove(gone func(*Subscription) bool) {
	b.change.Lock()
	defer b.change.Unlock()
	old := b.routes.Load()
	if old == nil {
		return
	}
	list := make([]route, 0, len(*old))
	for _, r := range *old {
		if !gone(r.sub) {
			list = append(list, r)
		}
	}
	b.routes.Store(&list)
}

// Listening reports whether an event of that kind and origin would reach a subscription that names the kind in its Filter: a
// subscriber who asked for it, not one who watches everything. It is true of the moment only.
func (b *Bus) Listening(kind messages.EventKind, from messages.Origin) bool {
	routes := b.routes.Load()
	if routes == nil {
		return false
	}
	for i := range *routes {
		s := (*routes)[i].sub
		if slices.Contains(s.filter.Kinds, kind) && s.filter.matches(kind, &from) && !s.ended.Load() {
			return true
		}
	}
	return false
}

// Close ends all subscriptions: they release their credits at once, what they have queued can still be read, then they
// answer messages.ErrClosed. Close does not wait for readers. Further calls do nothing.
func (b *Bus) Close() {
	b.change.Lock()
	routes := b.routes.Swap(nil)
	b.change.Unlock()
	if routes == nil {
		return
	}
	for _, r := range *routes {
		r.sub.finish(errBusClosed)
	}
}

// Stats counts what a bus has done.
type Stats struct {
	Subscriptions int    // open now
	Published     uint64 // events published since New
	Dropped       uint64 // output events lost, counted once for each subscription that lost one
}

// Stats returns the counts; they are read one after the other, not as one snapshot.
func (b *Bus) Stats() Stats {
	s := Stats{Published: b.published.Load(), Dropped: b.dropped.Load()}
	if routes := b.routes.Load(); routes != nil {
		s.Subscriptions = len(*routes)
	}
	return s
}

func cancelled(op string, ctx context.Context) error {
	return &messages.Error{Code: messages.CodeCancelled, Op: op, Detail: context.Cause(ctx).Error()}
}
