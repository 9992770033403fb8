package actors

import (
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/tests/probe"
)

// A caller may ask for the next thing as soon as it has its answer. The supervisor must know by then that the call is over.
func TestACallIsOverBeforeItsAnswerArrives(t *testing.T) {
	h := newHost(t, hostOptions{})
	type reply struct{}
	for name, answers := range map[string]func(ctx *system.Context, to protocol.Caller, supervisor *system.PID){
		"a process": func(ctx *system.Context, to protocol.Caller, supervisor *system.PID) {
			(&process{ctx: ctx, supervisor: supervisor}).reply(to, reply{})
		},
		"a wait": func(ctx *system.Context, to protocol.Caller, supervisor *system.PID) {
			(&wait{Caller: to, supervisor: supervisor}).answer(ctx, reply{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := probe.New(t)
			both, err := h.system.Spawn("both", func(ctx *system.Context) { seen.Receive(ctx.Message()) })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.system.Spawn("replies", func(ctx *system.Context) {
				if _, is := ctx.Message().(system.Started); is {
					answers(ctx, protocol.Caller{Call: 1, Asker: sender{h.system, both}}, both)
				}
			}); err != nil {
				t.Fatal(err)
			}
			probe.ExpectInOrder(seen, patience, probe.A(func(protocol.Answered) bool { return true }), probe.A(func(reply) bool { return true }))
		})
	}
}
