package session

import (
	"cmp"
	"slices"

	"github.com/execbus/execbus/messages"
)

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
