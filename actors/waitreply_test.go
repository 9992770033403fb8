package actors

import (
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/tests/probe"
)

// A caller may ask for the next thing as soon as it has its answer. The session must know by then that the call is over.
func TestAWaitIsOverBeforeItsAnswerArrives(t *testing.T) {
	h := newHost(t, hostOptions{})
	type reply struct{}
	seen := probe.New(t)
	both, err := h.system.Spawn("both", func(ctx *system.Context) { seen.Receive(ctx.Message()) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.system.Spawn("replies", func(ctx *system.Context) {
		if _, is := ctx.Message().(system.Started); is {
			(&wait{Caller: protocol.Caller{Call: 1, Asker: sender{h.system, both}}, supervisor: both}).answer(ctx, reply{})
		}
	}); err != nil {
		t.Fatal(err)
	}
	probe.ExpectInOrder(seen, patience, probe.A(func(protocol.Answered) bool { return true }), probe.A(func(reply) bool { return true }))
}
