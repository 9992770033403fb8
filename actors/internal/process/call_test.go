package process

import (
	"log/slog"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/tests/probe"
)

// told is a recipient that hands on its answer.
type told func(reply any)

func (f told) Answer(reply any) { f(reply) }

// A caller may ask for the next thing as soon as it has its answer. The session must know by then that the call is over.
func TestACallIsOverBeforeItsAnswerArrives(t *testing.T) {
	sys := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{})
	t.Cleanup(func() { _ = sys.Shutdown(t.Context()) })
	type reply struct{}
	seen := probe.New(t)
	both, err := sys.Spawn("both", func(ctx *system.Context) { seen.Receive(ctx.Message()) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sys.Spawn("replies", func(ctx *system.Context) {
		if _, is := ctx.Message().(system.Started); is {
			to := protocol.Caller{Call: 1, Asker: told(func(reply any) { ctx.Send(both, reply) })}
			(&process{ctx: ctx, supervisor: both}).reply(to, reply{})
		}
	}); err != nil {
		t.Fatal(err)
	}
	probe.ExpectInOrder(seen, time.Minute, probe.A(func(protocol.Answered) bool { return true }), probe.A(func(reply) bool { return true }))
}
