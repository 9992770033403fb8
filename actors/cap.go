package actors

import (
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// slotPatience is how long a start waits for a slot of any session before it is refused: the slot of a command that has
// just ended, or failed to start, may be about to come back.
const slotPatience = 250 * time.Millisecond

// refuseSlots is from the actor to itself: it refuses the starts that have waited too long.
type refuseSlots struct{}

// waitingStart is a start that waits for a slot of the runtime.
type waitingStart struct {
	session *system.PID
	process messages.ProcessID
	due     time.Time // when it is refused
}

type startID struct {
	session string
	process messages.ProcessID
}

func (w waitingStart) id() startID { return startID{w.session.Id, w.process} }

// errStartHangs is why nothing is started while a spawner hangs.
var errStartHangs = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "exec",
	Detail: "no program can be started now: an earlier start was called off and has not returned; try again later"}

func (r *runtime) takeSlot(m protocol.TakeSlot) {
	session := r.ctx.Sender()
	if r.stats.Hanging > 0 {
		r.ctx.Send(session, protocol.SlotTaken{Process: m.Process, Err: errStartHangs})
		return
	}
	if _, some := r.first(); !some && r.stats.Processes < r.deps.MaxProcesses {
		r.grant(session, m.Process)
		return
	}
	r.ctx.Send(session, protocol.SlotAwaited(m))
	w := waitingStart{session, m.Process, time.Now().Add(slotPatience)}
	r.waiting = append(r.waiting, w)
	r.waits[w.id()] = w.due
	r.watchWaiting()
}

// first is the first start that waits. Those that have left since they came are forgotten here.
func (r *runtime) first() (first waitingStart, some bool) {
	for len(r.waiting) > 0 {
		if first = r.waiting[0]; r.waits[first.id()].Equal(first.due) {
			return first, true
		}
		r.waiting = r.waiting[1:]
	}
	return first, false
}

// watchWaiting makes sure that no start waits too long. There is one timer for all, because the first to come is the first to be
// refused.
func (r *runtime) watchWaiting() {
	if first, some := r.first(); some && r.overdue == nil {
		r.overdue = r.ctx.After(time.Until(first.due), refuseSlots{})
	}
}

func (r *runtime) grant(session *system.PID, id messages.ProcessID) {
	r.slots[session.Id]++
	r.stats.Processes++
	r.stats.Started++
	r.ctx.Send(session, protocol.SlotTaken{Process: id})
}

// serve gives the free slots to the starts that wait.
func (r *runtime) serve() {
	for first, some := r.first(); some && r.stats.Processes < r.deps.MaxProcesses; first, some = r.first() {
		delete(r.waits, first.id())
		r.grant(first.session, first.process)
	}
}

// refuseOverdue refuses the starts that have waited long enough.
func (r *runtime) refuseOverdue() {
	r.overdue = nil
	for first, some := r.first(); some && !first.due.After(time.Now()); first, some = r.first() {
		r.refuse(first, protocol.ErrRuntimeFull)
	}
	r.watchWaiting()
}

func (r *runtime) refuse(w waitingStart, why *messages.Error) {
	delete(r.waits, w.id())
	r.ctx.Send(w.session, protocol.SlotTaken{Process: w.process, Err: why})
}

// spawnerHangs counts the starts that hang. The slot of such a start is given back, but no waiting one may start with it.
func (r *runtime) spawnerHangs(change int) {
	r.stats.Hanging += change
	for first, some := r.first(); some && r.stats.Hanging > 0; first, some = r.first() {
		r.refuse(first, errStartHangs)
	}
}

// withdrawSlot forgets a start that has ended. If it got a slot meanwhile, the session gives that back.
func (r *runtime) withdrawSlot(m protocol.WithdrawSlot) {
	delete(r.waits, startID{r.ctx.Sender().Id, m.Process})
}

func (r *runtime) giveSlot() {
	r.slots[r.ctx.Sender().Id]--
	r.stats.Processes--
	r.serve()
}
