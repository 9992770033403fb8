// Package probe helps tests of actors to say which messages they expect.
//
//	p := probe.New(t)
//	pid, err := system.Spawn("probe", func(ctx *system.Context) { p.Receive(ctx.Message()) })
//	// ... let somebody send to pid ...
//	result := probe.Expect(p, 5*time.Second, func(r *messages.Result) bool { return r.Running })
//	probe.ExpectInOrder(p, 5*time.Second, probe.A[messages.ExecExited](nil), probe.A[messages.ExecEnded](nil))
//
// A probe has no transport of its own. It records each message that is given to Receive, with the time. So it can stand
// behind an actor, a subscription to the bus, the events of a child, or all of them at once, and it knows the order in which
// their messages came. Receive never blocks.
//
// An expectation that fails prints everything that was recorded.
//
// # What you must not assume
//
// That an expectation looks back: each one reads on from where the last one stopped. Seen returns the messages that were
// skipped on the way, too. That a probe copies: a message must not change after it was given to Receive.
package probe

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// Probe records messages. Receive may be called from any goroutine. Everything else belongs to the goroutine of the test.
type Probe struct {
	t     testing.TB
	began time.Time

	// mu guards the fields that senders and the test share. It is a lock and not an actor because a probe must work where
	// actors do not.
	mu      sync.Mutex
	seen    []entry
	arrived chan struct{} // closed, and replaced, with each message

	next int // where the next expectation begins
}

type entry struct {
	message any
	at      time.Duration // since the probe was made
}

// New makes a probe for a test.
func New(t testing.TB) *Probe {
	return &Probe{t: t, began: time.Now(), arrived: make(chan struct{})}
}

// Receive records a message.
func (p *Probe) Receive(message any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, entry{message, time.Since(p.began)})
	close(p.arrived)
	p.arrived = make(chan struct{})
}

// Seen returns all messages recorded so far, in order, whether an expectation has reached them or not.
func (p *Probe) Seen() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]any, len(p.seen))
	for i, e := range p.seen {
		all[i] = e.message
	}
	return all
}

// Of returns the recorded messages of type T that pred accepts; a nil pred accepts every T.
func Of[T any](p *Probe, pred func(T) bool) []T {
	var found []T
	for _, message := range p.Seen() {
		if m, ok := message.(T); ok && (pred == nil || pred(m)) {
			found = append(found, m)
		}
	}
	return found
}

// Output returns the output of a process that was recorded so far. A gap in it shows as "[gap 10..20]".
func (p *Probe) Output(process messages.ProcessID) string {
	var b strings.Builder
	for _, message := range p.Seen() {
		switch m := message.(type) {
		case messages.OutputDelta:
			if m.Process == process {
				b.Write(m.Bytes)
			}
		case messages.Gap:
			if m.Process == process && m.Deltas > 0 {
				fmt.Fprintf(&b, "[gap %d..%d]", m.First, m.End)
			}
		}
	}
	return b.String()
}

// Expect reads on until a message of type T comes that pred accepts, and returns it. A nil pred accepts every T. It fails
// the test if none comes within timeout.
func Expect[T any](p *Probe, timeout time.Duration, pred func(T) bool) T {
	p.t.Helper()
	found, ok := p.find(timeout, A(pred).accepts)
	if !ok {
		p.t.Fatalf("probe: no %s within %v\n%s", nameOf[T](), timeout, p.history())
	}
	wanted, _ := found.(T)
	return wanted
}

// ExpectNone reads on until a message comes that last accepts. It fails the test if that message, or one before it, is of
// type T and pred accepts it. A nil pred accepts every T. Send the last message after the ones in question: then no time has
// to pass to be certain.
func ExpectNone[T any](p *Probe, timeout time.Duration, pred func(T) bool, last func(any) bool) {
	p.t.Helper()
	unwanted := A(pred).accepts
	found, ok := p.find(timeout, func(message any) bool { return unwanted(message) || last(message) })
	if !ok {
		p.t.Fatalf("probe: the last message did not come within %v\n%s", timeout, p.history())
	}
	if unwanted(found) {
		p.t.Fatalf("probe: unexpected %s\n%s", describe(found), p.history())
	}
}

// Step is one message of an order.
type Step struct {
	name    string
	accepts func(any) bool
}

// A makes the step of a message of type T that pred accepts. A nil pred accepts every T.
func A[T any](pred func(T) bool) Step {
	return Step{nameOf[T](), func(message any) bool {
		m, ok := message.(T)
		return ok && (pred == nil || pred(m))
	}}
}

// ExpectInOrder reads on until all steps have come, in their order; other messages may come between them. It returns their
// messages. It fails the test if they do not all come within timeout.
func ExpectInOrder(p *Probe, timeout time.Duration, steps ...Step) []any {
	p.t.Helper()
	deadline := time.Now().Add(timeout)
	var found []any
	for i, step := range steps {
		message, ok := p.find(time.Until(deadline), step.accepts)
		if !ok {
			p.t.Fatalf("probe: step %d of %d, %s, did not come within %v\n%s", i+1, len(steps), step.name, timeout, p.history())
		}
		found = append(found, message)
	}
	return found
}

// find reads on until a message is accepted. It looks at recorded messages even if no time is left.
func (p *Probe) find(timeout time.Duration, accepts func(any) bool) (any, bool) {
	late := time.NewTimer(max(timeout, 0))
	defer late.Stop()
	for {
		p.mu.Lock()
		fresh, arrived := p.seen[p.next:], p.arrived
		p.mu.Unlock()
		for _, e := range fresh {
			p.next++
			if accepts(e.message) {
				return e.message, true
			}
		}
		select {
		case <-arrived:
		case <-late.C:
			return nil, false
		}
	}
}

func (p *Probe) history() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) == 0 {
		return "nothing was recorded"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d messages were recorded:", len(p.seen))
	for i, e := range p.seen {
		fmt.Fprintf(&b, "\n%4d  %9.3f ms  %s", i+1, float64(e.at.Microseconds())/1000, describe(e.message))
	}
	return b.String()
}

// nameOf names a type, which may be an interface.
func nameOf[T any]() string { return strings.TrimPrefix(fmt.Sprintf("%T", (*T)(nil)), "*") }

const longest = 400 // bytes of one line of the history

func describe(message any) string {
	text := fmt.Sprintf("%T %+v", message, message)
	switch m := message.(type) {
	case messages.OutputDelta:
		text = fmt.Sprintf("%T process=%d call=%s %s seq=%d offset=%d %q", m, m.Process, m.Call, m.Stream, m.Seq, m.Offset, m.Bytes)
	case messages.ExecEnded:
		text = fmt.Sprintf("%T process=%d call=%s %s, total %d, transcript %q", m, m.Process, m.Call, &m.EndRecord, m.Total, m.Transcript)
	case messages.Gap:
		text = fmt.Sprintf("%T process=%d call=%s %s", m, m.Process, m.Call, m)
	case messages.TerminalInteraction:
		text = fmt.Sprintf("%T process=%d call=%s %s %d bytes %q", m, m.Process, m.Call, m.Mode, m.Length, m.Input)
	case *messages.Result:
		text = fmt.Sprintf("%T process=%d call=%s running=%t status=%s %q", m, m.Process, m.Call, m.Running, m.Status, m.Output)
	case error:
		text = fmt.Sprintf("%T %v", m, m)
	}
	if len(text) > longest {
		return fmt.Sprintf("%s… (%d bytes)", text[:longest], len(text))
	}
	return text
}
