package wait

import (
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// Config is what a wait is started with.
type Config struct {
	protocol.Caller
	Items  int  // how many there are
	Any    bool // the first reason answers it, otherwise a reason at every item
	First  []protocol.Target
	Time   *time.Duration // nil: it has no end
	Paused int            // pauses that hold its clock
}

// overdue says that the time of the call is over.
type overdue struct{}

type wait struct {
	Config
	session *system.PID
	unheard map[protocol.Target]struct{} // the targets that have not answered for the first time
	items   map[int]struct{}             // those with a reason
	met     messages.Wakeups
	since   time.Time // when its clock began to run
	timer   *system.Timer
	late    bool // its time is over
	over    bool
}

// Spawn starts the actor of a call, as a child of its session.
func Spawn(ctx *system.Context, c Config) *system.PID {
	w := &wait{Config: c, session: ctx.Self(), unheard: map[protocol.Target]struct{}{}, items: map[int]struct{}{}}
	for _, target := range c.First {
		w.unheard[target] = struct{}{}
	}
	return ctx.Spawn("wait", w.receive)
}

func (w *wait) receive(ctx *system.Context) {
	switch m := ctx.Message().(type) {
	case system.Started:
		w.run(ctx)
	case protocol.Observed:
		delete(w.unheard, m.Target)
		if m.Wakeup != nil {
			w.met = append(w.met, *m.Wakeup)
			w.items[m.Item] = struct{}{}
		}
		w.settle(ctx)
	case *messages.Error: // of a process whose actor has crashed, or whose calls are cancelled
		w.answer(ctx, m)
	case overdue:
		w.late = true
		w.settle(ctx)
	case protocol.Pause:
		w.hold()
	case protocol.Resume:
		w.Paused--
		w.run(ctx)
	case protocol.CancelCall:
		var only messages.ProcessID
		if w.Items == 1 && len(w.First) == 1 {
			only = w.First[0].Process
		}
		w.answer(ctx, protocol.CancelledError(only))
	case system.Unanswered, system.Stopping:
		w.answer(ctx, &messages.Error{Code: messages.ErrClosed, Op: "wait", Detail: "the session has ended; open another one"})
	case system.Crashing:
	default:
		ctx.Unexpected()
	}
}

// run lets the clock run, unless it is held.
func (w *wait) run(ctx *system.Context) {
	if w.Time != nil && w.Paused == 0 && !w.late && !w.over {
		w.since, w.timer = time.Now(), ctx.After(*w.Time, overdue{})
	}
}

// hold stops the clock, for one more reason.
func (w *wait) hold() {
	w.Paused++
	if w.timer != nil {
		w.timer.Cancel()
		w.timer, w.Time = nil, new(max(*w.Time-time.Since(w.since), 0))
	}
}

// settle answers the call if it is time to.
func (w *wait) settle(ctx *system.Context) {
	if len(w.unheard) == 0 && (w.late || w.Any && len(w.met) > 0 || len(w.items) == w.Items) {
		w.answer(ctx, w.met)
	}
}

// answer ends the call and the actor.
func (w *wait) answer(ctx *system.Context, reply any) {
	if w.over {
		return
	}
	w.over = true
	w.timer.Cancel()
	// The actors of processes answer in any order.
	slices.SortStableFunc(w.met, func(a, b messages.Wakeup) int { return a.At.Compare(b.At) })
	ctx.Send(w.session, protocol.Answered{Call: w.Call}) // before the answer, as a process does
	if w.Asker != nil {
		w.Asker.Answer(reply)
	}
	ctx.Stop(ctx.Self())
}
