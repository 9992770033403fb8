package wait

import (
	"context"
	"log/slog"
	"slices"
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

// begin waits for processes 1 and 2 below an actor that stands for the session; exits says which have exited.
func begin(t *testing.T, request messages.AwaitExit, exits ...messages.ProcessID) (sys *system.System, wait *system.PID, session *probe.Probe) {
	sys = system.NewSystem(slog.New(slog.DiscardHandler), system.Options{Unexpected: func(_ *system.PID, message any) { t.Errorf("unexpected: %T", message) }})
	session = probe.New(t)
	waits := make(chan *system.PID, 1)
	if _, err := sys.Spawn("session", func(ctx *system.Context) {
		session.Receive(ctx.Message())
		switch m := ctx.Message().(type) {
		case system.Started:
			request.Processes = []messages.ProcessID{1, 2}
			waits <- Spawn(ctx, protocol.Caller{Call: 1, Asker: asker{sys, ctx.Self()}}, request)
		case messages.AwaitExit:
			if at := slices.Index(exits, m.Processes[0]); at >= 0 {
				ctx.Respond(&messages.Exit{Process: m.Processes[0], At: time.Unix(int64(at), 0)})
			}
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

// A caller may ask for the next thing as soon as it has its answer. The session must know by then that the call is over.
func TestAWaitIsOverBeforeItsAnswerArrives(t *testing.T) {
	_, _, session := begin(t, messages.AwaitExit{Any: true}, 2)
	probe.ExpectInOrder(session, time.Minute, probe.A(func(protocol.CancelWait) bool { return true }), probe.A(func(protocol.Answered) bool { return true }),
		probe.A(func(r reply) bool {
			exits, is := r.any.(messages.Exits)
			return is && len(exits) == 1 && exits[0].Process == 2
		}))
}

func TestAWaitAnswersOnceHoweverItEnds(t *testing.T) {
	for name, c := range map[string]struct {
		request messages.AwaitExit
		exits   []messages.ProcessID
		end     func(sys *system.System, wait *system.PID)
		want    func(reply any) bool
	}{
		"all": {exits: []messages.ProcessID{2, 1}, want: func(reply any) bool {
			exits, is := reply.(messages.Exits)
			return is && len(exits) == 2 && exits[0].Process == 2 // in the order of the exits
		}},
		"time": {request: messages.AwaitExit{For: new(time.Nanosecond)}, exits: nil, want: func(reply any) bool {
			exits, is := reply.(messages.Exits)
			return is && len(exits) == 0
		}},
		"cancelled": {end: func(sys *system.System, wait *system.PID) { sys.Send(wait, protocol.CancelCall{Call: 1}) }, want: isError(messages.ErrCancelled)},
		"unknown": {end: func(sys *system.System, wait *system.PID) {
			sys.Send(wait, &messages.Error{Code: messages.ErrUnknownProcess})
			sys.Send(wait, &messages.Error{Code: messages.ErrUnknownProcess})
		}, want: isError(messages.ErrUnknownProcess)},
		"session gone": {end: func(sys *system.System, wait *system.PID) { sys.Send(wait, system.Unanswered{}) }, want: isError(messages.ErrClosed)},
	} {
		sys, wait, session := begin(t, c.request, c.exits...)
		if c.end != nil {
			c.end(sys, wait)
		}
		if got := probe.Expect[reply](session, time.Minute, nil); !c.want(got.any) {
			t.Errorf("%s: %v", name, got.any)
		}
		probe.Expect[system.Terminated](session, time.Minute, nil)
		if n := len(probe.Of[reply](session, nil)); n != 1 {
			t.Errorf("%s: %d answers", name, n)
		}
	}
}

func isError(code messages.ErrorCode) func(reply any) bool {
	return func(reply any) bool {
		err, is := reply.(*messages.Error)
		return is && err.Code == code
	}
}
