package bus

import (
	"slices"

	"github.com/execbus/execbus/messages"
)

// Filter selects events. An empty field selects everything; several values in one field select any of them; an event must
// pass all fields. The zero Filter selects all events.
type Filter struct {
	// Kinds of events. A kind that is ByName comes only if it is named. KindOutputDelta and KindInteraction include KindGap: a subscriber that wants output or inputs must learn
	// which of them are missing.
	Kinds []messages.EventKind
	// Sessions and Processes are where the event comes from. Process ids are unique within a session only. Process 0 selects
	// the events that belong to no process.
	Sessions  []messages.SessionID
	Processes []messages.ProcessID
	// Calls are the calls that started the process. A caller knows its call before it knows the process id.
	Calls []messages.CallID
}

// compile validates f and returns an independent copy.
func (f Filter) compile() (Filter, error) {
	if slices.Contains(f.Kinds, "") {
		return Filter{}, &messages.Error{Code: messages.ErrInvalidRequest, Op: "subscribe", Subject: "Filter.Kinds",
			Detail: "a kind is empty; name none to select all kinds", Hint: "leave the field nil"}
	}
	f.Kinds = slices.Clone(f.Kinds)
	if slices.ContainsFunc(f.Kinds, messages.EventKind.Lossy) {
		f.Kinds = append(f.Kinds, messages.KindGap)
	}
	f.Sessions = slices.Compact(slices.Sorted(slices.Values(f.Sessions))) // the directory must list each once
	f.Processes = slices.Clone(f.Processes)
	f.Calls = slices.Clone(f.Calls)
	return f, nil
}

func (f *Filter) matches(kind messages.EventKind, from *messages.Origin) bool {
	return selects(f.Processes, from.Process) && selects(f.Kinds, kind) && (len(f.Kinds) > 0 || !kind.ByName()) &&
		selects(f.Sessions, from.Session) && selects(f.Calls, from.Call)
}

func selects[T comparable](wanted []T, v T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, v)
}
