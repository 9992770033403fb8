package session

import (
	"slices"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
)

// calls are the open calls of a session.
type calls struct {
	last  protocol.CallID
	table map[protocol.CallID]*openCall
	// byAsker finds the calls of an asker that cancels them. A caller has one at a time; an actor of ours may have
	// several.
	byAsker map[string][]protocol.CallID
	// expecting are the waits that concern processes which have not started.
	expecting map[protocol.CallID]*openCall
}

// openCall is a call that is answered later.
type openCall struct {
	asker *system.PID // nil: no caller waits for the answer
	entry *entry      // the process it concerns, which is in use as long as the call is open; nil if it concerns none
	home  *system.PID // the actor of the wait or the patch that answers it; nil if none does
	waits bool        // home is a wait
	ender bool        // it waits here for the end of the process

	expects []expectation // of a wait
	looks   func()        // ends the lookup that answers it; nil for none
}

// open notes a call.
func (t *calls) open(c *openCall) protocol.CallID {
	if t.table == nil {
		t.table, t.byAsker, t.expecting = map[protocol.CallID]*openCall{}, map[string][]protocol.CallID{}, map[protocol.CallID]*openCall{}
	}
	t.last++
	t.table[t.last] = c
	if c.entry != nil {
		c.entry.open++
	}
	if c.asker != nil {
		t.byAsker[c.asker.Id] = append(t.byAsker[c.asker.Id], t.last)
	}
	return t.last
}

// answered forgets a call and returns it; nil if it is not open.
func (t *calls) answered(id protocol.CallID) *openCall {
	c := t.table[id]
	if c == nil {
		return nil
	}
	delete(t.table, id)
	delete(t.expecting, id)
	if c.looks != nil {
		c.looks()
	}
	if c.entry != nil {
		c.entry.open--
	}
	if c.asker != nil {
		left := slices.DeleteFunc(t.byAsker[c.asker.Id], func(other protocol.CallID) bool { return other == id })
		if t.byAsker[c.asker.Id] = left; len(left) == 0 {
			delete(t.byAsker, c.asker.Id)
		}
	}
	return c
}

// that are the open calls that fit.
func (t *calls) that(fit func(*openCall) bool) (found []protocol.CallID) {
	for id, c := range t.table {
		if fit(c) {
			found = append(found, id)
		}
	}
	return found
}

// about are the open calls about a process: those that wait here for its end, or the others.
func (t *calls) about(e *entry, enders bool) []protocol.CallID {
	if e.open == 0 {
		return nil
	}
	return t.that(func(c *openCall) bool { return c.entry == e && c.ender == enders })
}
