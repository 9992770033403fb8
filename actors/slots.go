package actors

import (
	"fmt"
	"slices"

	"github.com/execbus/execbus/messages"
)

// maxGuests is how many processes of a session may be above its limit, for as long as the calls that asked for them
// wait: most commands are over by then, and no other process has to end for them.
const maxGuests = 8

// slots keep a session within its limit of processes.
type slots struct {
	uses       uint64 // counts uses of processes
	taken      int    // slots that are taken
	granted    int    // processes that the runtime counts
	guests     int
	successors []*entry // guests, and processes that wait for the slot of another; in the order in which they came
}

// place is a process's state in the count of slots.
type place struct {
	slot    bool // it has one
	guest   bool // it has none, and runs above the limit
	asked   bool // the runtime's actor has been asked to count this process
	granted bool // the runtime's actor counts it
	pruned  bool // it is being ended for its successor

	victim    *entry // of a successor: whose slot it will get; nil if any that is about to be free
	successor *entry // the process that will get its slot
}

// wantSlot answers a process that is about to start. If no slot is free, the least recently used process is chosen to give
// up its own; it is not ended before the newcomer's call yields. If none can be chosen the newcomer waits for the slot of
// a process that is being ended anyway, and if there is none of those it is refused.
func (v *supervisor) wantSlot(id messages.ProcessID) {
	e := v.entries[id]
	if e == nil {
		return
	}
	if v.holdBack(e) {
		return
	}
	if v.slots.taken < v.config.MaxProcesses {
		v.slots.taken++
		e.place.slot = true
		v.takeSlot(e)
		return
	}
	chosen := v.choose()
	if chosen == nil && v.slotsToCome() <= 0 {
		v.ctx.Send(e.actor, slot{v.limitReached()})
		return
	}
	v.slots.successors = append(v.slots.successors, e)
	if chosen == nil {
		v.ctx.Send(e.actor, waitsForSlot)
		v.ctx.After(maxPruneGrace, slotOverdue{id})
		return
	}
	e.place.victim, chosen.place.successor = chosen, e
	if !e.outlives && v.slots.guests < maxGuests {
		v.slots.guests++
		e.place.guest = true
		v.takeSlot(e)
		return
	}
	v.ctx.Send(e.actor, waitsForSlot)
	v.prune(chosen)
}

var waitsForSlot = startWaits{"for the slot of another process, which is being ended"}

// slotsToCome counts the slots that are about to be free and that no process waits for.
func (v *supervisor) slotsToCome() (n int) {
	for _, e := range v.entries {
		if e.place.slot && e.place.successor == nil && e.isEnding() {
			n++
		}
	}
	for _, e := range v.slots.successors {
		if e.place.victim == nil {
			n--
		}
	}
	return n
}

// slotOverdue refuses a process that waited for the slot of any other, if none has become free.
func (v *supervisor) slotOverdue(id messages.ProcessID) {
	if e := v.entries[id]; e != nil && e.place.victim == nil && v.succeeds(e) {
		v.dropSuccessor(e)
		v.ctx.Send(e.actor, slot{v.limitReached()})
	}
}

// takeSlot asks the runtime's actor, which counts over all sessions.
func (v *supervisor) takeSlot(e *entry) {
	e.place.asked = true
	v.ctx.Request(v.runtime, takeSlot{e.info.Process})
}

// choose finds a process to end so that another can start; nil if there is none.
func (v *supervisor) choose() *entry {
	var all []candidate
	for id, e := range v.entries {
		if e.place.slot && e.place.successor == nil && !e.place.pruned {
			all = append(all, candidate{id, e.used, e.info.State == messages.StateExited, e.open > 0})
		}
	}
	id, found := victim(all, v.config.Protected)
	if !found {
		return nil
	}
	return v.entries[id]
}

// prune ends a process for its successor.
func (v *supervisor) prune(e *entry) {
	if !e.place.pruned {
		e.place.pruned = true
		v.endsNow(e)
		v.ctx.Send(e.actor, request{message: messages.Terminate{Process: e.info.Process, By: messages.TerminatedByPrune}})
	}
}

// yielded ends the process whose slot a guest gets, because the guest lives on. If that process is in use by now, another
// may have to end in its place; if no other can, the busy one does.
func (v *supervisor) yielded(id messages.ProcessID) {
	e := v.entries[id]
	if e == nil {
		return
	}
	e.outlives = true // this may come before it wants a slot
	if !e.place.guest || e.place.victim.place.pruned {
		return
	}
	if e.place.victim.open > 0 {
		if other := v.choose(); other != nil {
			e.place.victim.place.successor = nil
			e.place.victim, other.place.successor = other, e
		}
	}
	v.prune(e.place.victim)
}

// slotAwaited says why slotTaken is not there yet.
func (v *supervisor) slotAwaited(m slotAwaited) {
	if e := v.entries[m.id]; e != nil && e.place.asked && !e.place.granted {
		v.ctx.Send(e.actor, startWaits{"for a slot: all sessions together have as many processes as they may"})
	}
}

// slotTaken is the answer of the runtime's actor.
func (v *supervisor) slotTaken(m slotTaken) {
	e := v.entries[m.id]
	switch {
	case e == nil && m.err == nil: // it ended meanwhile
		v.ctx.Request(v.runtime, giveSlot{})
	case e == nil:
	case e.place.granted && m.err == nil: // it has inherited another meanwhile
		v.ctx.Request(v.runtime, giveSlot{})
	case e.place.granted:
	case m.err != nil && e.place.guest: // the guest waits: the session gets no more than it has
		e.place.asked, e.place.guest = false, false
		v.slots.guests--
		v.ctx.Send(e.actor, waitsForSlot)
		v.prune(e.place.victim)
	case m.err != nil:
		e.place.asked = false
		v.giveUpSlot(e)
		v.ctx.Send(e.actor, slot{m.err})
	default:
		v.granted(e)
		v.ctx.Send(e.actor, slot{})
	}
}

// giveUpSlot takes away the slot of a process that the runtime does not count. Only its own successor takes it over: other
// waiting processes are to get the slot of one that is counted.
func (v *supervisor) giveUpSlot(e *entry) {
	if e.place.successor == nil {
		e.place.slot = false
		v.slots.taken--
		return
	}
	if successor := v.vacate(e); !successor.place.asked {
		v.takeSlot(successor)
	}
}

// granted notes that the runtime counts a process, and tells the host when the session comes near its limit.
func (v *supervisor) granted(e *entry) {
	e.place.granted = true
	if v.slots.granted++; v.slots.granted >= v.config.WarnProcesses {
		v.bus.Publish(messages.ProcessWarning{Origin: v.origin(e), Processes: v.slots.granted, Max: v.config.MaxProcesses,
			Text: warningText(v.config.WarnProcesses, v.slots.granted)})
	}
}

func warningText(threshold, now int) string {
	return fmt.Sprintf("The maximum number of unified exec processes you can keep open is %d and you currently have %d processes "+
		"open. Reuse older processes or close them to prevent automatic pruning of old processes", threshold, now)
}

// leaveSlots gives back the slot and the count of a process that has ended. Its successor may get both, so that no other session
// takes the count on the way.
func (v *supervisor) leaveSlots(e *entry, cause messages.Cause) {
	if e.place.asked && !e.place.granted {
		v.ctx.Request(v.runtime, withdrawSlot{e.info.Process})
	}
	counts := e.place.granted
	if counts {
		v.slots.granted--
	}
	switch successor := v.vacate(e); {
	case successor == nil || successor.place.granted:
	case counts:
		counts = false
		if successor.place.asked {
			v.ctx.Request(v.runtime, withdrawSlot{successor.info.Process})
		}
		successor.place.asked = true
		v.granted(successor)
		v.ctx.Send(successor.actor, slot{})
	case !successor.place.asked:
		v.takeSlot(successor)
	}
	v.ctx.Request(v.runtime, counted{cause, counts})
}

// vacate takes a process out of the slots, and returns the process that gets its slot: its successor, or the first of the
// others, where those without a victim come first.
func (v *supervisor) vacate(e *entry) (successor *entry) {
	if v.succeeds(e) {
		v.dropSuccessor(e)
	}
	if !e.place.slot {
		return nil
	}
	e.place.slot = false
	successor = e.place.successor
	if successor == nil && len(v.slots.successors) > 0 {
		first := slices.IndexFunc(v.slots.successors, func(other *entry) bool { return other.place.victim == nil })
		successor = v.slots.successors[max(first, 0)]
	}
	if successor == nil {
		v.slots.taken--
		return nil
	}
	v.dropSuccessor(successor)
	successor.place.slot = true
	return successor
}

func (v *supervisor) succeeds(e *entry) bool { return slices.Contains(v.slots.successors, e) }

// dropSuccessor takes a process off the list of successors. Its victim lives on, unless it is being ended already.
func (v *supervisor) dropSuccessor(e *entry) {
	if e.place.guest {
		e.place.guest = false
		v.slots.guests--
	}
	if victim := e.place.victim; victim != nil {
		e.place.victim, victim.place.successor = nil, nil
	}
	v.slots.successors = slices.DeleteFunc(v.slots.successors, func(other *entry) bool { return other == e })
}

func (v *supervisor) limitReached() *messages.Error {
	err := &messages.Error{Code: messages.ErrLimitReached, Op: "exec"}
	for id, e := range v.entries {
		if e.place.slot {
			err.Busy = append(err.Busy, id)
		}
	}
	slices.Sort(err.Busy)
	err.Detail = "all slots are taken by processes that are in use, are ending or were used just now: " +
		messages.ProcessIDs(err.Busy) + "; wait for one to end, or terminate one"
	return err
}
