package wait

import (
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

// A caller may ask for the next thing as soon as it has its answer. The session must know by then that the call is over.
func TestAWaitIsOverBeforeItsAnswerArrives(t *testing.T) {
	sys := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{Unexpected: func(_ *system.PID, message any) { t.Errorf("unexpected: %T", message) }})
	seen := probe.New(t)
	session, err := sys.Spawn("session", func(ctx *system.Context) {
		seen.Receive(ctx.Message())
		switch m := ctx.Message().(type) {
		case string:
			Spawn(ctx, protocol.Caller{Call: 1, Asker: asker{sys, ctx.Self()}}, messages.AwaitExit{Processes: []messages.ProcessID{1, 2}, Any: true})
		case messages.AwaitExit:
			if m.Processes[0] == 2 {
				ctx.Respond(&messages.Exit{Process: 2})
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	sys.Send(session, "wait")
	probe.ExpectInOrder(seen, time.Minute, probe.A(func(protocol.CancelWait) bool { return true }), probe.A(func(protocol.Answered) bool { return true }),
		probe.A(func(r reply) bool {
			exits, is := r.any.(messages.Exits)
			return is && len(exits) == 1 && exits[0].Process == 2
		}))
	if err := sys.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
