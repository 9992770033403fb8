package actors

import (
	"slices"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// overdue says that the time of the call is over.
type overdue struct{}

// wait is the actor of one call that concerns several processes. It asks for the exit of each, as any caller does,
// collects the answers, answers once, and ends.
type wait struct {
	messages.AwaitExit
	protocol.Caller
	supervisor *system.PID
	exits      messages.Exits
	open       int
	over       bool
}

func (w *wait) receive(ctx *system.Context) {
	switch m := ctx.Message().(type) {
	case system.Started:
		for _, id := range w.Processes {
			w.open++
			ctx.Request(w.supervisor, messages.AwaitExit{Processes: []messages.ProcessID{id}})
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
	ctx.Send(w.supervisor, protocol.CancelWait{Waiter: ctx.Self().Id})
	ctx.Send(w.supervisor, protocol.Answered{Call: w.Call}) // before the answer, as a process does
	if w.Asker != nil {
		w.Asker.Answer(reply)
	}
	ctx.Stop(ctx.Self())
}
