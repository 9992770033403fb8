package ptyio

import (
	"sync"
	"time"
)

// places bounds concurrent operations that can occupy a thread each, because Go never frees threads.
//
// A look at a file system may hang, and its thread with it. After longLook it gives its place back and lends one more place
// until it answers. So each hanging look lets two others go on, and a look that does not hang waits only a few times
// longLook, even if many before it hang.
type places struct {
	// mu guards two words and a queue for an instant. A message would need a goroutine that never ends.
	mu      sync.Mutex
	room    int // free places; negative if a lent place is taken away while it is in use
	waiting []chan struct{}
}

// longLook is how long a look keeps its place. A look at a file system that answers takes a hundredth of it.
const longLook = 10 * time.Millisecond

func newPlaces(count int) *places { return &places{room: count} }

func (p *places) take() {
	p.mu.Lock()
	if p.room > 0 {
		p.room--
		p.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	<-turn
}

// give gives places back, or takes some away if count is negative.
func (p *places) give(count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room += count
	for p.room > 0 && len(p.waiting) > 0 {
		p.room--
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
	}
}

// takeForALook takes a place that is given back when the look is over, or earlier if it takes long.
func (p *places) takeForALook() (over func()) {
	p.take()
	long := time.AfterFunc(longLook, func() { p.give(2) })
	return func() {
		if long.Stop() {
			p.give(1)
		} else {
			p.give(-1)
		}
	}
}
