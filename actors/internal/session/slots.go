package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/process"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// maxAbove is how many starts of a session may run above its limit, for as long as the calls that asked for them wait: most
// commands are over by then, and no other process has to end for them.
const maxAbove = 8

// slots keep a session within its limit of processes.
type slots struct {
	uses    uint64   // counts uses of processes
	taken   int      // by processes, and by starts that the runtime's actor is asked about
	granted int      // processes that the runtime's actor counts
	starts  []*entry // that want a slot and are not counted yet, in the order in which they came
}

// slot is what a process has of a slot.
type slot int

const (
	slotNone    slot = iota // it wants none yet, was refused, or has given it back
	slotWaits               // it is a start that waits
	slotAsked               // it has a slot of its session, and the runtime's actor is asked to count it
	slotGranted             // it may run
)

func (s slot) taken() bool { return s >= slotAsked }

// wantSlot answers a process that is about to start. If no slot is free it may run above the limit as long as its call waits,
// where the least recently used process can be ended afterwards. Otherwise it waits for the slot of a process that is ended
// for it, or is being ended anyway; and if there is none of those it is refused.
func (v *supervisor) wantSlot(id messages.ProcessID) {
	e := v.entries[id]
	if e == nil || v.holdBack(e) {
		return
	}
	e.slot = slotWaits
	v.slots.starts = append(v.slots.starts, e)
	v.serve(0)
	if e.slot == slotWaits && !v.mayWait(e) {
		v.refuse(e, v.limitReached())
	}
}

// serve takes slots for the starts that can have one now, in their order. A start runs above the limit only if there is a process
// that can be ended for it later; one whose call has gone, or that has waited, only in place of another that still may. The first
// starts that have waited get the counts of processes that have ended, so that no other session takes those on the way; serve returns
// how many are left.
func (v *supervisor) serve(counts int) (left int) {
	if len(v.slots.starts) == 0 {
		return counts
	}
	most, before := v.config.MaxProcesses, 0 // starts before it that wait, and that no process is ended for
	victims := len(v.victims(false))
	lasting, _ := v.lasting()
	for _, e := range slices.Clone(v.slots.starts) {
		if e.slot == slotWaits {
			above := v.slots.taken + 1 - max(most, lasting)
			if v.slots.taken >= most && (v.slots.taken >= most+maxAbove || above+before > victims || lasting >= most && (e.outlives || !e.until.IsZero())) {
				if !e.claims {
					before++
				}
				continue
			}
			v.slots.taken++
			if e.outlives {
				lasting++
			}
			e.slot, e.above = slotAsked, v.slots.taken > most
			if counts == 0 {
				v.ctx.Request(v.runtime, protocol.TakeSlot{Process: e.info.Process})
				continue
			}
		} else if counts == 0 || !e.above && e.until.IsZero() {
			continue
		} else {
			v.ctx.Request(v.runtime, protocol.WithdrawSlot{Process: e.info.Process})
		}
		counts--
		v.grant(e)
	}
	return counts
}

// lasting counts the processes with a slot whose first call has gone, and those among them that are ended for others.
func (v *supervisor) lasting() (all, pruned int) {
	for _, e := range v.entries {
		if e.slot.taken() && e.outlives {
			all++
		}
		if e.slot.taken() && e.pruned {
			pruned++
		}
	}
	return all, pruned
}

// unclaimed is how many of the processes that are ended for others are for no start that waits, and for no process that has
// outlived its call above the limit. It is negative where more must end.
func (v *supervisor) unclaimed() int {
	lasting, n := v.lasting()
	n -= max(0, lasting-v.config.MaxProcesses)
	for _, e := range v.slots.starts {
		if e.claims {
			n--
		}
	}
	return n
}

// mayWait reports whether a start may wait for the slot of a process that is being ended, and ends one for it, and for those
// before it, where it can.
func (v *supervisor) mayWait(e *entry) bool {
	others, none := 0, false // starts before it that no process is ended for; whether there is one to end
	for _, s := range v.slots.starts {
		if s.slot == slotWaits && !s.claims && !none {
			s.claims = v.unclaimed() > 0 || v.spare() && v.prune(v.victims(false)[0])
			none = !s.claims
		}
		if s == e {
			break
		}
		if !s.claims && !s.until.IsZero() {
			others++
		}
	}
	if !e.claims && others >= v.ending() {
		return false
	}
	if e.until.IsZero() {
		v.ctx.Send(e.actor, protocol.StartWaits{What: "for the slot of another process, which is being ended"})
	}
	e.until = time.Now().Add(process.MaxPruneGrace)
	v.ctx.After(process.MaxPruneGrace, slotOverdue{e.info.Process})
	return true
}

// spare reports whether there is a process that can be ended for a start that waits: not all of them are needed for those that
// run above the limit.
func (v *supervisor) spare() bool {
	lasting, _ := v.lasting()
	return len(v.victims(false)) > max(0, v.slots.taken-max(lasting, v.config.MaxProcesses))
}

// ending counts the processes that are about to give their slots back, and that nobody has ended for others.
func (v *supervisor) ending() (n int) {
	for _, e := range v.entries {
		if e.slot.taken() && !e.pruned && e.isEnding() {
			n++
		}
	}
	return n
}

// slotOverdue refuses a start that has waited long enough, if a new one would get no slot either.
func (v *supervisor) slotOverdue(id messages.ProcessID) {
	e := v.entries[id]
	switch {
	case e == nil || time.Now().Before(e.until): // a later time decides
	case e.slot == slotAsked:
		v.refuse(e, protocol.ErrRuntimeFull)
	case e.slot == slotWaits && !(v.mayWait(e) && e.claims):
		v.refuse(e, v.limitReached())
	}
}

// refuse ends a start.
func (v *supervisor) refuse(e *entry, why *messages.Error) {
	v.dropSlot(e)
	v.ctx.Send(e.actor, protocol.Slot{Refused: why})
	v.serve(0)
}

// dropSlot takes a process out of the slots. It reports whether the runtime's actor counts it.
func (v *supervisor) dropSlot(e *entry) (counted bool) {
	if e.slot == slotAsked {
		v.ctx.Request(v.runtime, protocol.WithdrawSlot{Process: e.info.Process})
	}
	if e.slot.taken() {
		v.slots.taken--
	}
	counted = e.slot == slotGranted
	e.slot, e.claims = slotNone, false
	v.slots.starts = slices.DeleteFunc(v.slots.starts, func(other *entry) bool { return other == e })
	return counted
}

// victims are the processes that can be ended so that others can start, the first to end first; those in use only if anyway.
func (v *supervisor) victims(anyway bool) []messages.ProcessID {
	var all []candidate
	for id, e := range v.entries {
		if e.slot == slotGranted && !e.pruned {
			first := !e.outlives && e.open > 0 // the call that asked for it waits
			all = append(all, candidate{id, e.used, e.info.State == messages.StateExited && !first, first || e.open > 0 && !anyway})
		}
	}
	return victims(all, v.config.Protected)
}

// prune ends a process for another one.
func (v *supervisor) prune(id messages.ProcessID) bool {
	e := v.entries[id]
	e.pruned = true
	v.unwanted(e)
	v.ctx.Send(e.actor, protocol.Request{Message: messages.Terminate{Process: id, By: messages.TerminatedByPrune}})
	return true
}

// yielded notes that a command outlives the call that asked for it.
func (v *supervisor) yielded(id messages.ProcessID) {
	if e := v.entries[id]; e != nil {
		e.outlives = true // this may come before it wants a slot
		v.pruneExcess()
	}
}

// pruneExcess ends a process for each that lives on above the limit. If none can be chosen any more, because all are in use by now, the
// least recently used one ends.
func (v *supervisor) pruneExcess() {
	for v.unclaimed() < 0 {
		chosen := v.victims(false)
		if len(chosen) == 0 {
			chosen = v.victims(true)
		}
		if len(chosen) == 0 {
			return
		}
		v.prune(chosen[0])
	}
}

// slotAwaited says why slotTaken is not there yet.
func (v *supervisor) slotAwaited(m protocol.SlotAwaited) {
	if e := v.entries[m.Process]; e != nil && e.slot == slotAsked && !e.claims {
		v.ctx.Send(e.actor, protocol.StartWaits{What: "for a slot: all sessions together have as many processes as they may"})
	}
}

// slotTaken is the answer of the runtime's actor. A start that it refuses waits for a process of the session if it is above the limit,
// and asks again if it has waited before.
func (v *supervisor) slotTaken(m protocol.SlotTaken) {
	e := v.entries[m.Process]
	switch {
	case e == nil || e.slot != slotAsked: // it has ended, was refused, or got the count of another meanwhile
		if m.Err == nil {
			v.ctx.Request(v.runtime, protocol.GiveSlot{})
		}
	case m.Err == nil:
		v.grant(e)
	case m.Err.Code != messages.ErrLimitReached:
		v.refuse(e, m.Err)
	case time.Now().Before(e.until):
		v.ctx.Request(v.runtime, protocol.TakeSlot{Process: e.info.Process})
	default:
		e.slot = slotWaits
		v.slots.taken--
		if !e.above || !v.mayWait(e) {
			v.refuse(e, m.Err)
		}
		v.serve(0)
	}
}

// grant lets a start run, and tells the host when the session comes near its limit.
func (v *supervisor) grant(e *entry) {
	e.slot, e.claims = slotGranted, false
	v.slots.starts = slices.DeleteFunc(v.slots.starts, func(other *entry) bool { return other == e })
	if v.slots.granted++; v.slots.granted >= v.config.WarnProcesses {
		v.Bus.Publish(messages.ProcessWarning{Origin: v.origin(e), Processes: v.slots.granted, Max: v.config.MaxProcesses,
			Text: warningText(v.config.WarnProcesses, v.slots.granted)})
	}
	v.ctx.Send(e.actor, protocol.Slot{})
	v.pruneExcess()
}

func warningText(threshold, now int) string {
	return fmt.Sprintf("The maximum number of unified exec processes you can keep open is %d and you currently have %d processes "+
		"open. Reuse older processes or close them to prevent automatic pruning of old processes", threshold, now)
}

// leaveSlots gives back what a process had that has ended.
func (v *supervisor) leaveSlots(e *entry, cause messages.Cause) {
	end := protocol.Counted{Cause: cause}
	if v.dropSlot(e) {
		v.slots.granted--
		end.Slot = v.serve(1) > 0
		end.Inherited = !end.Slot
	} else {
		v.serve(0)
	}
	for _, s := range slices.Backward(v.slots.starts) { // an earlier one may have got the slot
		s.claims = s.claims && v.unclaimed() >= 0
	}
	v.pruneExcess()
	v.ctx.Request(v.runtime, end)
}

func (v *supervisor) limitReached() *messages.Error {
	err := &messages.Error{Code: messages.ErrLimitReached, Op: "exec"}
	for id, e := range v.entries {
		if e.slot.taken() {
			err.Busy = append(err.Busy, id)
		}
	}
	slices.Sort(err.Busy)
	err.Detail = "all slots are taken by processes that are in use, are ending or were used just now: " +
		messages.ProcessIDs(err.Busy) + "; wait for one to end, or terminate one"
	return err
}

// candidate has the facts about a process that decide whether it is ended to make room.
type candidate struct {
	id     messages.ProcessID
	used   uint64 // a counter: higher is more recent
	exited bool   // its leader has exited; background children or output remain
	busy   bool   // a call waits on it
}

// victims are the processes that may be ended so that others can start, the first to end first: among those that are not the
// protected most recently used ones, those whose leader has exited, the least recently used first, and then the others in the same
// order. Busy ones never are. If a busy one whose leader has exited was passed over, no living one is: the busy one will be gone
// soon.
func victims(all []candidate, protected int) []messages.ProcessID {
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.used, b.used) })
	var exited, living []messages.ProcessID
	waitFor := false
	for _, c := range all[:max(len(all)-protected, 0)] {
		switch {
		case c.exited && c.busy:
			waitFor = true
		case c.exited:
			exited = append(exited, c.id)
		case !c.busy:
			living = append(living, c.id)
		}
	}
	if waitFor {
		return exited
	}
	return append(exited, living...)
}
