package session

import (
	"math/rand/v2"

	"github.com/execbus/execbus/messages"
)

// Process ids are from this range.
const (
	firstID = 1_000
	endID   = 100_000
)

// ids counts up from a random start, or from the first, so that none is reused soon.
type ids struct {
	random bool
	next   messages.ProcessID // zero before the first
}

// reserve gives an id that neither a process nor a record has.
func (v *supervisor) reserve() messages.ProcessID {
	n := &v.ids
	if n.next == 0 {
		n.next = firstID
		if n.random {
			n.next += messages.ProcessID(rand.IntN(endID - firstID))
		}
	}
	for {
		id := n.next
		if n.next++; n.next == endID {
			n.next = firstID
		}
		if v.entries[id] == nil && v.records.find(id) == nil {
			return id
		}
	}
}
