package actors

import (
	"fmt"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/process"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// maxGuests is how many processes of a session may be above its limit, for as long as the calls that asked for them
// wait: most commands are over by then, and no other process has to end for them.
const maxGuests = 8

// slots keep a session within its limit of processes.
type slots struct {
	uses    uint64 // counts uses of processes
	taken   int    // slots that are taken
	granted int    // processes that the runtime counts
	guests  int
	// successors are guests and starts that wait for a slot, or for the runtime to count them once they have one; in the
	// order in which they came. A start that waits gets a slot before any that came later, and before the guests.
	successors []*entry
}

// place is a process's state in the count of slots.
type place struct {
	slot    bool // it has one
	guest   bool // it has none, and runs above the limit
	asked   bool // the runtime's actor has been asked to count this process
	granted bool // the runtime's actor counts it
	pruned  bool // it is being ended for its successor

	victim    *entry    // of a successor: whose slot it will get; nil if any that is about to be free
	successor *entry    // the process that will get its slot, or give it up to a start that came earlier
	until     time.Time // when a start that waits is refused, unless it waits for its victim's slot
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
	if v.takeFree(e) {
		v.takeSlot(e)
		return
	}
	v.slots.successors = append(v.slots.successors, e)
	v.chooseVictims()
	switch {
	case e.place.victim != nil:
	case v.slotsToCome() < 0:
		v.refuse(e, v.limitReached())
	default:
		v.awaitSlot(e, process.MaxPruneGrace)
	}
}

// takeFree gives a process a slot if one is free.
func (v *supervisor) takeFree(e *entry) bool {
	if v.slots.taken >= v.config.MaxProcesses {
		return false
	}
	v.slots.taken++
	e.place.slot = true
	return true
}

// awaitSlot lets a start wait for a slot; after its patience it is refused, unless a process is being ended for it.
func (v *supervisor) awaitSlot(e *entry, patience time.Duration) {
	e.place.until = time.Now().Add(patience)
	v.ctx.Send(e.actor, protocol.StartWaits{What: "for the slot of another process, which is being ended"})
	v.ctx.After(patience, slotOverdue{e.info.Process})
}

// awaitVictim ends a process for a start that waits. If the start gets another slot first, which the runtime may not count, its
// patience has to last until the process has ended and leaves its count.
func (v *supervisor) awaitVictim(e *entry) {
	v.awaitSlot(e, 2*process.MaxPruneGrace)
	v.prune(e.place.victim)
}

// slotsToCome counts the slots that are about to be free and that no process waits for. It is negative if more wait than
// slots come free.
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

// chooseVictims finds processes to end for the starts that wait without one.
func (v *supervisor) chooseVictims() {
	for _, e := range v.slots.successors {
		if e.place.victim != nil || e.place.slot {
			continue
		}
		chosen := v.choose()
		if chosen == nil {
			return
		}
		e.place.victim, chosen.place.successor = chosen, e
		if !e.outlives && v.slots.guests < maxGuests {
			v.slots.guests++
			e.place.guest = true
			v.takeSlot(e)
			continue
		}
		v.awaitVictim(e)
	}
}

// slotOverdue refuses a start that has waited long enough, if a new one would get no slot either.
func (v *supervisor) slotOverdue(id messages.ProcessID) {
	e := v.entries[id]
	if e == nil || !v.succeeds(e) || e.place.asked || time.Now().Before(e.place.until) { // the runtime's answer or a later time decides
		return
	}
	v.chooseVictims()
	switch {
	case e.place.victim != nil:
	case e.place.slot:
		v.refuse(e, errRuntimeFull)
	default:
		v.refuse(e, v.limitReached())
	}
}

// refuse ends a start.
func (v *supervisor) refuse(e *entry, why *messages.Error) {
	v.ask(v.vacate(e))
	v.ctx.Send(e.actor, protocol.Slot{Refused: why})
}

// takeSlot asks the runtime's actor, which counts over all sessions.
func (v *supervisor) takeSlot(e *entry) {
	e.place.asked = true
	v.ctx.Request(v.runtime, protocol.TakeSlot{Process: e.info.Process})
}

// choose finds a process to end so that another can start; nil if there is none.
func (v *supervisor) choose() *entry {
	var all []candidate
	for id, e := range v.entries {
		if e.place.slot && e.place.successor == nil && !e.place.pruned && !v.succeeds(e) {
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
		v.unwanted(e)
		v.ctx.Send(e.actor, protocol.Request{Message: messages.Terminate{Process: e.info.Process, By: messages.TerminatedByPrune}})
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
func (v *supervisor) slotAwaited(m protocol.SlotAwaited) {
	if e := v.entries[m.Process]; e != nil && e.place.asked && !e.place.granted {
		v.ctx.Send(e.actor, protocol.StartWaits{What: "for a slot: all sessions together have as many processes as they may"})
	}
}

// slotTaken is the answer of the runtime's actor.
func (v *supervisor) slotTaken(m protocol.SlotTaken) {
	e := v.entries[m.Process]
	switch {
	case e == nil && m.Err == nil: // it ended meanwhile
		v.ctx.Request(v.runtime, protocol.GiveSlot{})
	case e == nil:
	case e.place.granted && m.Err == nil: // it has inherited another meanwhile
		v.ctx.Request(v.runtime, protocol.GiveSlot{})
	case e.place.granted:
	case m.Err != nil && e.place.guest: // the guest waits: the session gets no more than it has
		e.place.asked, e.place.guest = false, false
		v.slots.guests--
		v.awaitVictim(e)
		if v.takeFree(e) {
			v.dropClaim(e)
		}
	case m.Err != nil:
		e.place.asked = false
		if !v.mayWait(e, m.Err) {
			v.refuse(e, m.Err)
		}
	default:
		v.granted(e)
		v.ctx.Send(e.actor, protocol.Slot{})
	}
}

// mayWait reports whether a start that the runtime has refused keeps its slot, to be counted in the place of a process that is
// being ended.
func (v *supervisor) mayWait(e *entry, why *messages.Error) bool {
	return why.Code == messages.ErrLimitReached && v.succeeds(e) && time.Now().Before(e.place.until)
}

// granted notes that the runtime counts a process, and tells the host when the session comes near its limit.
func (v *supervisor) granted(e *entry) {
	e.place.granted = true
	if e.place.guest {
		v.takeFree(e)
	}
	if e.place.slot {
		v.dropSuccessor(e)
	}
	if v.slots.granted++; v.slots.granted >= v.config.WarnProcesses {
		v.Bus.Publish(messages.ProcessWarning{Origin: v.origin(e), Processes: v.slots.granted, Max: v.config.MaxProcesses,
			Text: warningText(v.config.WarnProcesses, v.slots.granted)})
	}
}

func warningText(threshold, now int) string {
	return fmt.Sprintf("The maximum number of unified exec processes you can keep open is %d and you currently have %d processes "+
		"open. Reuse older processes or close them to prevent automatic pruning of old processes", threshold, now)
}

// leaveSlots gives back the slot and the count of a process that has ended. Starts that wait may get both, so that no other
// session takes the count on the way.
func (v *supervisor) leaveSlots(e *entry, cause messages.Cause) {
	if e.place.asked && !e.place.granted {
		v.ctx.Request(v.runtime, protocol.WithdrawSlot{Process: e.info.Process})
	}
	end := protocol.Counted{Cause: cause, Slot: e.place.granted}
	if e.place.granted {
		v.slots.granted--
	}
	heir := v.vacate(e)
	uncounted := slices.IndexFunc(v.slots.successors, func(other *entry) bool { return other.place.slot })
	if end.Slot && uncounted >= 0 {
		end.Slot, end.Inherited = false, true
		v.inherit(v.slots.successors[uncounted])
	}
	v.ask(heir)
	v.ctx.Request(v.runtime, end)
}

// inherit counts a start in the place of a process that has ended.
func (v *supervisor) inherit(e *entry) {
	if e.place.asked {
		v.ctx.Request(v.runtime, protocol.WithdrawSlot{Process: e.info.Process})
	}
	e.place.asked = true
	v.granted(e)
	v.ctx.Send(e.actor, protocol.Slot{})
}

// ask takes care that the runtime's actor has been asked about a process that has got a slot; nil is none.
func (v *supervisor) ask(heir *entry) {
	if heir != nil && !heir.place.asked {
		v.takeSlot(heir)
	}
}

// vacate takes a process out of the slots, and returns the process that gets its slot. That stays among the successors until
// it is counted.
func (v *supervisor) vacate(e *entry) *entry {
	v.dropSuccessor(e)
	if !e.place.slot {
		return nil
	}
	e.place.slot = false
	heir := v.heir(e)
	if successor := e.place.successor; successor != nil {
		e.place.successor, successor.place.victim = nil, nil
	}
	if heir == nil {
		v.slots.taken--
		return nil
	}
	heir.place.slot = true
	v.dropClaim(heir)
	if heir.place.granted {
		v.dropSuccessor(heir)
	}
	return heir
}

// heir is the process that gets a slot: the first start that waits, unless the slot is promised to a guest and that start has
// no other to leave to the guest. A guest that the runtime does not count gets only a slot that it does.
func (v *supervisor) heir(e *entry) *entry {
	first := v.firstSuccessor(func(p place) bool { return !p.guest && !p.slot })
	switch successor := e.place.successor; {
	case first != nil && (successor == nil || first.place.victim != nil):
		return first
	case successor != nil:
		return successor
	default:
		return v.firstSuccessor(func(p place) bool { return p.guest && (e.place.granted || p.granted) })
	}
}

// firstSuccessor is the first of the successors that fits; nil if there is none.
func (v *supervisor) firstSuccessor(fits func(place) bool) *entry {
	for _, e := range v.slots.successors {
		if fits(e.place) {
			return e
		}
	}
	return nil
}

func (v *supervisor) succeeds(e *entry) bool { return slices.Contains(v.slots.successors, e) }

// dropSuccessor takes a process off the list of successors, if it is there.
func (v *supervisor) dropSuccessor(e *entry) {
	v.slots.successors = slices.DeleteFunc(v.slots.successors, func(other *entry) bool { return other == e })
	v.dropClaim(e)
}

// dropClaim takes its victim from a process. A victim that is being ended already leaves its slot to the next that waits without
// one; any other lives on.
func (v *supervisor) dropClaim(e *entry) {
	if e.place.guest {
		e.place.guest = false
		v.slots.guests--
	}
	victim := e.place.victim
	if victim == nil {
		return
	}
	e.place.victim, victim.place.successor = nil, nil
	next := v.firstSuccessor(func(p place) bool { return p.victim == nil && !p.slot })
	if victim.place.pruned && next != nil {
		next.place.victim, victim.place.successor = victim, next
	}
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
