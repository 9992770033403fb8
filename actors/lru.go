package actors

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

// victim chooses the process to end so that another can start: among those that are not the protected most recently
// used ones, the least recently used whose leader has exited, or else the least recently used of all. Busy ones are
// never chosen. If a busy one whose leader has exited was passed over, no living one is chosen either: the busy one
// will be gone soon.
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
