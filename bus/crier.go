package bus

import (
	"sync"
	"time"
)

const (
	// prompt is how many readers a publisher wakes itself. A wake-up costs it several times as much as putting the event into the
	// queue, and what the readers do then takes the processors from whatever the event is about.
	prompt = 64
	// pause is the time between two rounds of the crier. In it more events come for the same readers.
	pause = time.Millisecond
	// A round wakes a roundth of those that wait, but at least leastRound. So the last one is woken some 10 ms late.
	roundth    = 8
	leastRound = 128
)

// crier wakes readers that a publisher left to it. It has a goroutine only while there are any.
type crier struct {
	// mu guards the list, which holds each subscription at most once. A message would do, but publishers would then wait for, or
	// outrun, a goroutine.
	mu    sync.Mutex
	late  []*Subscription
	cries bool
}

// leave has subscriptions woken later. Their late is set.
func (c *crier) leave(late []*Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = append(c.late, late...)
	if !c.cries {
		c.cries = true
		go c.run()
	}
}

func (c *crier) run() {
	for {
		<-time.After(pause)
		round := c.next()
		if round == nil {
			return
		}
		for _, s := range round {
			s.wakeLate()
		}
	}
}

// next takes those of the next round off the list. If there are none, the goroutine has to end.
func (c *crier) next() (round []*Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.late) == 0 {
		c.late, c.cries = nil, false
		return nil
	}
	n := min(len(c.late), max(leastRound, len(c.late)/roundth))
	round, c.late = c.late[:n:n], c.late[n:]
	return round
}
