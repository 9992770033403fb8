package actors

import (
	"container/list"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// slotPatience is how long a start waits for a slot of any session before it is refused: the slot of a command that has
// just ended, or failed to start, may be about to come back.
const slotPatience = 250 * time.Millisecond

// waitingStarts are the processes that wait for a slot of the runtime, in the order in which they came.
type waitingStarts struct {
	order list.List // of *applicant
	byID  map[applicantID]*applicant
	timer *system.Timer // for the first in order, or for an earlier first that has left; nil if none waits
}

// refuseSlots is from the actor to itself: it refuses the processes that have waited too long.
type refuseSlots struct{}

type applicantID struct {
	session string
	process messages.ProcessID
}

// applicant is a process that waits for a slot of the runtime.
type applicant struct {
	applicantID
	pid     *system.PID
	due     time.Time // when it is refused
	element *list.Element
}

// errStartHangs is why nothing is started while a spawner hangs.
var errStartHangs = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "exec",
	Detail: "no program can be started now: an earlier start was called off and has not returned; try again later"}

func (r *runtime) takeSlot(m protocol.TakeSlot) {
	session := r.ctx.Sender()
	if r.stats.Hanging > 0 {
		r.ctx.Send(session, protocol.SlotTaken{Process: m.Process, Err: errStartHangs})
		return
	}
	if r.waiting.order.Len() == 0 && r.stats.Processes < r.deps.MaxProcesses {
		r.grant(session, m.Process)
		return
	}
	a := &applicant{applicantID: applicantID{session.Id, m.Process}, pid: session, due: time.Now().Add(slotPatience)}
	r.ctx.Send(session, protocol.SlotAwaited(m))
	a.element = r.waiting.order.PushBack(a)
	if r.waiting.byID == nil {
		r.waiting.byID = map[applicantID]*applicant{}
	}
	r.waiting.byID[a.applicantID] = a
	r.watchWaiting()
}

// watchWaiting makes sure that no process waits too long. There is one timer for all, because the first to come is the
// first to be refused.
func (r *runtime) watchWaiting() {
	if first := r.waiting.order.Front(); first != nil && r.waiting.timer == nil {
		r.waiting.timer = r.ctx.After(time.Until(first.Value.(*applicant).due), refuseSlots{})
	}
}

func (r *runtime) grant(session *system.PID, id messages.ProcessID) {
	r.slots[session.Id]++
	r.stats.Processes++
	r.stats.Started++
	r.ctx.Send(session, protocol.SlotTaken{Process: id})
}

// drop takes an applicant off the list.
func (r *runtime) drop(a *applicant) {
	r.waiting.order.Remove(a.element)
	delete(r.waiting.byID, a.applicantID)
}

// serve gives the free slots to the processes that wait.
func (r *runtime) serve() {
	for r.waiting.order.Len() > 0 && r.stats.Processes < r.deps.MaxProcesses {
		a := r.waiting.order.Front().Value.(*applicant)
		r.drop(a)
		r.grant(a.pid, a.process)
	}
}

// refuseOverdue refuses the processes that have waited long enough.
func (r *runtime) refuseOverdue() {
	r.waiting.timer = nil
	now := time.Now()
	for first := r.waiting.order.Front(); first != nil && !first.Value.(*applicant).due.After(now); first = r.waiting.order.Front() {
		r.refuse(first.Value.(*applicant), errRuntimeFull)
	}
	r.watchWaiting()
}

var errRuntimeFull = &messages.Error{Code: messages.ErrLimitReached, Op: "exec",
	Detail: "all sessions together have as many processes as they may; wait for one to end, or terminate one",
	Hint:   "raise Options.MaxProcesses"}

func (r *runtime) refuse(a *applicant, why *messages.Error) {
	r.drop(a)
	r.ctx.Send(a.pid, protocol.SlotTaken{Process: a.process, Err: why})
}

// spawnerHangs counts the starts that hang. The slot of such a start is given back, but no waiting process may start with
// it.
func (r *runtime) spawnerHangs(change int) {
	r.stats.Hanging += change
	for r.stats.Hanging > 0 && r.waiting.order.Len() > 0 {
		r.refuse(r.waiting.order.Front().Value.(*applicant), errStartHangs)
	}
}

// withdrawSlot forgets an applicant that has ended. If it got a slot meanwhile, the session gives that back.
func (r *runtime) withdrawSlot(m protocol.WithdrawSlot) {
	if a := r.waiting.byID[applicantID{r.ctx.Sender().Id, m.Process}]; a != nil {
		r.drop(a)
	}
}

// forgetSession takes the applicants of a session off the list.
func (r *runtime) forgetSession(session string) {
	var next *list.Element
	for e := r.waiting.order.Front(); e != nil; e = next {
		next = e.Next()
		if a := e.Value.(*applicant); a.session == session {
			r.drop(a)
		}
	}
}

func (r *runtime) giveSlot() {
	r.slots[r.ctx.Sender().Id]--
	r.stats.Processes--
	r.serve()
}
