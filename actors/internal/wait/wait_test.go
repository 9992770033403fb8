package wait

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// asker sends its answer to the actor that stands for the session, so that the order is seen.
type asker struct {
	sys     *system.System
	session *system.PID
}

type reply struct{ any }

func (a asker) Answer(answer any) { a.sys.Send(a.session, reply{answer}) }

// begin starts a wait for processes 1 and 2 below an actor that stands for the session.
func begin(t *testing.T, c Config) (sys *system.System, wait *system.PID, session *probe.Probe) {
	sys = system.NewSystem(slog.New(slog.DiscardHandler), system.Options{Unexpected: func(_ *system.PID, message any) { t.Errorf("unexpected: %T", message) }})
	session = probe.New(t)
	waits := make(chan *system.PID, 1)
	if _, err := sys.Spawn("session", func(ctx *system.Context) {
		session.Receive(ctx.Message())
		if _, started := ctx.Message().(system.Started); started {
			c.Caller, c.Items = protocol.Caller{Call: 1, Asker: asker{sys, ctx.Self()}}, 2
			c.First = []protocol.Target{{Item: 0, Process: 1}, {Item: 1, Process: 2}}
			waits <- Spawn(ctx, c)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sys, <-waits, session
}

// from is what a process says: that something is met, at a time, or with zero that nothing is.
func from(process messages.ProcessID, at int64) protocol.Observed {
	m := protocol.Observed{Target: protocol.Target{Item: int(process) - 1, Process: process}}
	if at > 0 {
		m.Wakeup = &messages.Wakeup{Item: m.Item, Process: process, At: time.Unix(at, 0)}
	}
	return m
}

// A caller may ask for the next thing as soon as it has its answer. The session must know by then that the call is over.
func TestAWaitIsOverBeforeItsAnswerArrives(t *testing.T) {
	sys, wait, session := begin(t, Config{Any: true})
	sys.Send(wait, from(1, 0))
	sys.Send(wait, from(2, 1))
	probe.ExpectInOrder(session, time.Minute, probe.A(func(protocol.Answered) bool { return true }), probe.A(isWakeups(2)))
}

func TestAWaitAnswersOnceHoweverItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		heard  []any
		want   func(reply) bool
	}{
		"all, in the order of the times":    {heard: []any{from(1, 2), from(2, 1)}, want: isWakeups(2, 1)},
		"any":                               {config: Config{Any: true}, heard: []any{from(1, 0), from(2, 0), from(1, 2), from(2, 3)}, want: isWakeups(1)},
		"any, with all that was met before": {config: Config{Any: true}, heard: []any{from(2, 2), from(1, 1)}, want: isWakeups(1, 2)},
		"time":                              {config: Config{Time: new(time.Duration)}, heard: []any{from(2, 0), from(1, 1)}, want: isWakeups(1)},
		"time, when nothing is met":         {config: Config{Time: new(time.Duration)}, heard: []any{from(2, 0), from(1, 0)}, want: isWakeups()},
		"time that was held":                {config: Config{Time: new(time.Duration), Paused: 1}, heard: []any{protocol.Pause{}, from(2, 0), from(1, 0), protocol.Resume{}, protocol.Resume{}}, want: isWakeups()},
		"cancelled":                         {heard: []any{from(1, 1), protocol.CancelCall{Call: 1}}, want: isError(messages.ErrCancelled)},
		"crashed":                           {heard: []any{&messages.Error{Code: messages.ErrRuntimeFailure}, &messages.Error{Code: messages.ErrRuntimeFailure}}, want: isError(messages.ErrRuntimeFailure)},
		"session gone":                      {heard: []any{system.Unanswered{}}, want: isError(messages.ErrClosed)},
	} {
		sys, wait, session := begin(t, c.config)
		for _, message := range c.heard {
			sys.Send(wait, message)
		}
		if got := probe.Expect[reply](session, time.Minute, nil); !c.want(got) {
			t.Errorf("%s: %v", name, got.any)
		}
		probe.Expect[system.Terminated](session, time.Minute, nil)
		if n := len(probe.Of[reply](session, nil)); n != 1 {
			t.Errorf("%s: %d answers", name, n)
		}
	}
}

func isWakeups(processes ...messages.ProcessID) func(reply) bool {
	return func(r reply) bool {
		wakeups, is := r.any.(messages.Wakeups)
		is = is && len(wakeups) == len(processes)
		for i := range processes {
			is = is && wakeups[i].Process == processes[i]
		}
		return is
	}
}

func isError(code messages.ErrorCode) func(reply) bool {
	return func(r reply) bool {
		err, is := r.any.(*messages.Error)
		return is && err.Code == code
	}
}
