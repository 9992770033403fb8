package actors

import (
	"cmp"
	"slices"

	"github.com/execbus/execbus/messages"
)

// candidate is a process as the choice of a victim sees it.
type candidate struct {
	id     messages.ProcessID
	used   uint64 // a counter: higher is more recent
	exited bool   // its leader has exited; background children or output remain
	busy   bool   // a call waits on it
}

// victim chooses the process to end so that another can start: among those that are not the protected most recently used
// ones, the least recently used whose leader has exited, or else the least recently used of all. Busy ones are never
// chosen; and if a busy one was passed over whose leader has exited, and so will be gone soon, no living one is.
func victim(all []candidate, protected int) (messages.ProcessID, bool) {
	all = slices.SortedFunc(slices.Values(all), func(a, b candidate) int { return cmp.Compare(a.used, b.used) })
	open := all[:max(len(all)-protected, 0)]
	waitFor := false
	for _, c := range open {
		switch {
		case c.exited && !c.busy:
			return c.id, true
		case c.exited:
			waitFor = true
		}
	}
	for _, c := range open {
		if !c.busy && !waitFor {
			return c.id, true
		}
	}
	return 0, false
}

// wantSlot answers a process that is about to start: with a slot if one is free, after pruning if that frees one, and
// with limit_reached otherwise.
func (v *supervisor) wantSlot(id messages.ProcessID) {
	e := v.entries[id]
	if e == nil {
		return
	}
	if v.slots < v.config.MaxProcesses {
		v.slots++
		e.slot = true
		v.ctx.Request(v.runtime, takeSlot{id})
		return
	}
	if !v.prune() {
		v.ctx.Send(e.actor, slot{v.limitReached()})
		return
	}
	v.queue = append(v.queue, id)
}

// prune begins to end one process.
func (v *supervisor) prune() bool {
	var all []candidate
	for id, e := range v.entries {
		if e.slot && !e.pruned {
			all = append(all, candidate{id, e.used, e.info.State == messages.StateExited, len(e.open) > 0})
		}
	}
	id, found := victim(all, v.config.Protected)
	if found {
		e := v.entries[id]
		e.pruned = true
		v.ctx.Send(e.actor, messages.Terminate{Process: id, By: messages.ByPrune})
	}
	return found
}

func (v *supervisor) limitReached() error {
	err := &messages.Error{Code: messages.CodeLimitReached, Op: "exec",
		Detail: "all slots for processes are taken by ones that are in use or were used just now",
		Hint:   "wait for one to end, or terminate one"}
	for id, e := range v.entries {
		if e.slot {
			err.Busy = append(err.Busy, id)
		}
	}
	slices.Sort(err.Busy)
	return err
}

// slotTaken is the runtime's answer, which counts over all sessions.
func (v *supervisor) slotTaken(m slotTaken) {
	e := v.entries[m.id]
	switch {
	case e == nil && m.err == nil: // it ended meanwhile
		v.ctx.Request(v.runtime, giveSlot{})
	case e == nil:
	case m.err != nil:
		e.slot = false
		v.freeSlot()
		v.ctx.Send(e.actor, slot{m.err})
	default:
		e.granted = true
		v.granted++
		v.warn(e)
		v.ctx.Send(e.actor, slot{})
	}
}

// warn tells the host when a session comes near its limit.
func (v *supervisor) warn(e *entry) {
	if v.granted >= v.config.WarnProcesses {
		v.bus.Publish(messages.ProcessWarning{Origin: v.origin(e), Processes: v.granted, Max: v.config.MaxProcesses,
			Text: warningText(v.config.WarnProcesses, v.granted)})
	}
}

// freeSlot gives a free slot to the next in the queue.
func (v *supervisor) freeSlot() {
	v.slots--
	for len(v.queue) > 0 {
		next := v.queue[0]
		v.queue = v.queue[1:]
		if v.entries[next] != nil {
			v.wantSlot(next)
			return
		}
	}
}
