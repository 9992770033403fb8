// Package bustest helps tests to say which events they expect on a bus.
//
//	rec := bustest.Record(t, b, bus.Filter{}, bus.SubscribeOptions{})
//	// ... do something ...
//	started := bustest.Expect(t, rec, 5*time.Second, func(e messages.ExecStarted) bool { return e.TTY })
//	bustest.Expect(t, rec, 5*time.Second, func(e messages.ExecEnded) bool { return e.Process == started.Process })
//	if got := rec.Output(started.Process); got != "hello\r\n" { ... }
//
// Subscribe before the events are published; then no test needs a sleep. An expectation that fails prints every event that
// was seen.
//
// # What you must not assume
//
// That an expectation looks back: each one reads on from where the last one stopped. Seen returns the events that were
// skipped on the way, too.
package bustest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// Recorder reads a subscription and remembers what it read. It belongs to the goroutine of its test.
type Recorder struct {
	// Subscription is the recorded subscription; a test may close it.
	Subscription *bus.Subscription
	seen         []messages.Event
}

// Record subscribes. The subscription is closed when the test ends.
func Record(t testing.TB, b *bus.Bus, f bus.Filter, o bus.SubscribeOptions) *Recorder {
	t.Helper()
	sub, err := b.Subscribe(f, o)
	if err != nil {
		t.Fatalf("bustest: %v", err)
	}
	t.Cleanup(sub.Close)
	return &Recorder{Subscription: sub}
}

// Seen returns the events read so far, in order.
func (r *Recorder) Seen() []messages.Event { return r.seen }

// Output returns the output of process p that was read so far. A gap in it shows as "[gap 10..20]".
func (r *Recorder) Output(p messages.ProcessID) string {
	var b strings.Builder
	for _, ev := range r.seen {
		if ev.From().Process != p {
			continue
		}
		switch ev := ev.(type) {
		case messages.OutputDelta:
			b.Write(ev.Bytes)
		case messages.Gap:
			if ev.Deltas > 0 {
				fmt.Fprintf(&b, "[gap %d..%d]", ev.First, ev.End)
			}
		}
	}
	return b.String()
}

// Expect reads until an event of type T comes that pred accepts, and returns it. A nil pred accepts every T. It fails the
// test if timeout passes or the subscription ends before that.
func Expect[T messages.Event](t testing.TB, r *Recorder, timeout time.Duration, pred func(T) bool) T {
	t.Helper()
	for ev, err := range r.events(timeout) {
		if err != nil {
			t.Fatalf("bustest: expected %T, got: %v\n%s", *new(T), err, r.history())
		}
		if wanted, ok := ev.(T); ok && (pred == nil || pred(wanted)) {
			return wanted
		}
	}
	panic("bustest: a subscription ended without an error")
}

// ExpectNone reads until an event comes that last accepts. It fails the test if that event, or one before it, is of type T
// and pred accepts it. A nil pred accepts every T. Let the test publish the last event after the ones in question: then no
// time has to pass to be certain.
func ExpectNone[T messages.Event](t testing.TB, r *Recorder, timeout time.Duration, pred func(T) bool,
	last func(messages.Event) bool) {
	t.Helper()
	for ev, err := range r.events(timeout) {
		if err != nil {
			t.Fatalf("bustest: waiting for the last event, got: %v\n%s", err, r.history())
		}
		if unwanted, ok := ev.(T); ok && (pred == nil || pred(unwanted)) {
			t.Fatalf("bustest: unexpected %s\n%s", describe(ev), r.history())
		}
		if last(ev) {
			return
		}
	}
}

// ExpectEnd reads the remaining events. It fails the test unless the subscription ends within timeout, with an error that
// matches target.
func ExpectEnd(t testing.TB, r *Recorder, timeout time.Duration, target error) {
	t.Helper()
	for _, err := range r.events(timeout) {
		if err != nil && !errors.Is(err, target) {
			t.Fatalf("bustest: expected the end %q, got: %v\n%s", target, err, r.history())
		}
	}
}

// events reads on and remembers what it reads. Its last pair holds an error.
func (r *Recorder) events(timeout time.Duration) iter.Seq2[messages.Event, error] {
	return func(yield func(messages.Event, error) bool) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), timeout,
			fmt.Errorf("nothing more within %v", timeout))
		defer cancel()
		for ev, err := range r.Subscription.All(ctx) {
			if err == nil {
				r.seen = append(r.seen, ev)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func (r *Recorder) history() string {
	if len(r.seen) == 0 {
		return "no event was seen"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d events were seen:", len(r.seen))
	for i, ev := range r.seen {
		fmt.Fprintf(&b, "\n%4d  %s", i+1, describe(ev))
	}
	return b.String()
}

func describe(ev messages.Event) string {
	from := ev.From()
	head := fmt.Sprintf("%-13s session=%s process=%d call=%s", ev.Kind(), from.Session, from.Process, from.Call)
	switch ev := ev.(type) {
	case messages.OutputDelta:
		return fmt.Sprintf("%s %s seq=%d offset=%d %q", head, ev.Stream, ev.Seq, ev.Offset, ev.Bytes)
	case messages.Gap:
		return fmt.Sprintf("%s %s", head, ev)
	default:
		return fmt.Sprintf("%s %+v", head, ev)
	}
}
