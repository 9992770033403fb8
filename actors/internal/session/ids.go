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
	last   messages.ProcessID // zero before the first
}

// next is the next id that is not taken.
func (n *ids) next(taken func(messages.ProcessID) bool) messages.ProcessID {
	if n.last == 0 {
		n.last = firstID - 1
		if n.random {
			n.last += messages.ProcessID(rand.IntN(endID - firstID))
		}
	}
	for {
		if n.last++; n.last == endID {
			n.last = firstID
		}
		if !taken(n.last) {
			return n.last
		}
	}
}
