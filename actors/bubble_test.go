package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/tests/probe"
)

// bubble is a runtime whose children are imagined and whose time is: a wait costs nothing, and "nothing happens any
// more" is a fact. Goroutines that block forever are released at the end; any other goroutine that is left fails the
// test.
type bubble struct {
	*host
	machine *fiction
	opened  int        // sessions
	mu      sync.Mutex // actors meet faults concurrently, and the test changes them
	faults  func(self *system.PID, message any)
}

// fault lets faults happen ahead of messages; nil ends that.
func (b *bubble) fault(faults func(self *system.PID, message any)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = faults
}

// bubbleOptions of a test; the zero value suits most tests.
type bubbleOptions struct {
	max     int
	records int64
	plan    func(policy.Request, policy.Snapshot) policy.Plan
}

// soon is the patience of all bubbles with code of the host.
var soon = shared.Patience{Spawn: 2 * time.Second, Child: time.Second, End: 3 * time.Second, Approver: 4 * time.Second, Plan: time.Second}

// inBubble runs a test whose runtime must end with all it has started.
func inBubble(t *testing.T, o bubbleOptions, test func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, o)
		defer b.burst()
		test(t, b)
	})
}

func newBubble(t *testing.T, o bubbleOptions) *bubble {
	t.Helper()
	b := &bubble{machine: newFiction()}
	seen := &witness{living: map[string]*system.PID{}}
	if o.plan == nil {
		o.plan = imaginedPlan
	}
	if o.max == 0 {
		o.max = 4096
	}
	sys := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{Unexpected: unexpected(t), Before: func(self *system.PID, message any) {
		seen.before(self, message)
		b.mu.Lock()
		faults := b.faults
		b.mu.Unlock()
		if faults != nil {
			faults(self, message)
		}
	}})
	b.host = &host{t: t, system: sys, witness: seen, bus: bus.New(bus.Options{}), dir: "/"}
	var err error
	b.runtime, err = StartRuntime(sys, shared.Dependencies{Bus: b.bus, Spawner: b.machine, Logger: slog.New(slog.DiscardHandler),
		MaxProcesses: o.max, MakePlan: outside(t, o.plan), Patience: soon, RecordBytes: o.records})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// burst ends the runtime, and all that it left alone.
func (b *bubble) burst() {
	b.t.Helper()
	b.fault(nil)
	if _, err := ask[protocol.Done](b.host, b.runtime, CloseRuntime{}); err != nil && !errors.Is(err, messages.ErrClosed) {
		b.t.Errorf("close the runtime: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.system.Shutdown(ctx); err != nil {
		b.t.Error(err)
	}
	b.bus.Close()
	close(b.machine.release)
	for _, child := range b.machine.all() {
		child.kill()
		child.giveUp()
	}
	synctest.Wait()
}

// imaginedPlan makes the plan that the command line names: asked, retry or again.
func imaginedPlan(r policy.Request, s policy.Snapshot) policy.Plan {
	plan := policy.Plan{Decision: policy.Run, FirstAttempt: policy.Sandboxed, OnDenial: policy.Return, Source: messages.DecidedByPolicy,
		CacheKey: fmt.Sprint(r.Argv)}
	switch {
	case slices.Contains(r.Argv, "asked") && (s.Granted == nil || !s.Granted(plan.CacheKey)):
		plan.Decision = policy.Ask
	case slices.Contains(r.Argv, "retry"):
		plan.OnDenial = policy.Retry
	case slices.Contains(r.Argv, "again"):
		plan.OnDenial = policy.AskTo
	}
	return plan
}

// open opens a session in a bubble. Its probe gets every event.
func (b *bubble) open(change func(*shared.SessionConfig)) *talk {
	b.t.Helper()
	b.opened++
	config := shared.SessionConfig{Session: messages.SessionID(fmt.Sprint("s", b.opened)), Dir: "/",
		LongestPoll: messages.DefaultMaxPoll, OutputTokens: messages.DefaultOutputTokens, MaxProcesses: 64, WarnProcesses: 60,
		Protected: 8, DeterministicIDs: true, Sandbox: messages.SandboxPolicy{Type: messages.SandboxReadOnly},
		Approval: messages.ApprovalPolicy{Mode: messages.ApproveNever}}
	if change != nil {
		change(&config)
	}
	s := &talk{host: b.host, id: config.Session, events: probe.New(b.t)}
	events, err := b.bus.Subscribe(bus.Filter{Sessions: []messages.SessionID{s.id}}, bus.SubscribeOptions{Lossless: true})
	if err != nil {
		b.t.Fatal(err)
	}
	go func() {
		for event, err := range events.All(context.Background()) {
			if err != nil {
				return
			}
			s.events.Receive(event)
		}
	}()
	s.supervisor = must[*system.PID](b.host, b.runtime, OpenSession{config})
	return s
}

// does is a command of an imagined child; the call answers when it runs.
func does(words ...string) protocol.StartCommand {
	return protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: words}}
}

// only is the one living actor whose name contains part.
func (b *bubble) only(part string) *system.PID {
	b.t.Helper()
	synctest.Wait()
	found := b.actors(part)
	if len(found) != 1 {
		b.t.Fatalf("%d actors are like %q", len(found), part)
	}
	return found[0]
}

// crash crashes an actor at its next message.
func (b *bubble) crash(pid *system.PID) { b.system.Send(pid, deliberate{}) }

// answerIs is a call's answer, which must be here.
func answerIs(t testing.TB, w waiting) (any, error) {
	t.Helper()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	reply, err := w.Wait(now)
	if errors.Is(err, context.Canceled) {
		t.Errorf("a call was not answered")
	}
	return reply, err
}

// stop is a gate in front of one message of one actor.
type stop struct {
	mu     sync.Mutex
	at     func(self *system.PID, message any) bool // nil: nothing stops
	there  chan struct{}                            // an actor has come to the gate
	goes   chan struct{}                            // closed: it may go on
	passed bool
}

func newStop(at func(self *system.PID, message any) bool) *stop {
	return &stop{at: at, there: make(chan struct{}), goes: make(chan struct{})}
}

// before holds the first actor that comes to the gate.
func (s *stop) before(self *system.PID, message any) {
	s.mu.Lock()
	holds := !s.passed && s.at(self, message)
	s.passed = s.passed || holds
	s.mu.Unlock()
	if holds {
		close(s.there)
		<-s.goes
	}
}

// isA is a place for a stop.
func isA[T any](_ *system.PID, message any) bool {
	_, is := message.(T)
	return is
}
