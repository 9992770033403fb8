package wait

import (
	"slices"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// overdue says that the time of the call is over.
type overdue struct{}

type wait struct {
	messages.AwaitExit
	protocol.Caller
	session *system.PID
	exits   messages.Exits
	open    int
	over    bool
}

// Spawn starts the actor of a call, as a child of its session.
func Spawn(ctx *system.Context, caller protocol.Caller, request messages.AwaitExit) *system.PID {
	w := &wait{AwaitExit: request, Caller: caller, session: ctx.Self()}
	return ctx.Spawn("wait", w.receive)
}

func (w *wait) receive(ctx *system.Context) {
	switch m := ctx.Message().(type) {
	case system.Started:
		for _, id := range w.Processes {
			w.open++
			ctx.Request(w.session, messages.AwaitExit{Processes: []messages.ProcessID{id}})
		}
		if w.For != nil {
			ctx.After(*w.For, overdue{})
		}
	case *messages.Exit:
		w.open--
		w.exits = append(w.exits, *m)
		if w.Any || w.open == 0 {
			w.answer(ctx, w.exits)
		}
	case *messages.Error: // an unknown id, or that of a process whose actor has crashed
		w.answer(ctx, m)
	case overdue:
		w.answer(ctx, w.exits)
	case protocol.CancelCall:
		w.answer(ctx, protocol.CancelledError(0))
	case system.Unanswered, system.Stopping:
		w.answer(ctx, &messages.Error{Code: messages.ErrClosed, Op: "wait", Detail: "the session has ended; open another one"})
	case system.Crashing:
	default:
		ctx.Unexpected()
	}
}

// answer cancels the waits that are still open, ends the call, and ends the actor.
func (w *wait) answer(ctx *system.Context, reply any) {
	if w.over {
		return
	}
	w.over = true
	// The actors of processes answer in any order.
	slices.SortStableFunc(w.exits, func(a, b messages.Exit) int { return a.At.Compare(b.At) })
	ctx.Send(w.session, protocol.CancelWait{Waiter: ctx.Self().Id})
	ctx.Send(w.session, protocol.Answered{Call: w.Call}) // before the answer, as a process does
	if w.Asker != nil {
		w.Asker.Answer(reply)
	}
	ctx.Stop(ctx.Self())
}
