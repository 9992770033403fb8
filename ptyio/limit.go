package ptyio

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus/messages"
)

// bounds are the limits that this package enforces for every starter, and the limit that was reached.
type bounds struct {
	output  atomic.Int64 // counted by the readers of two streams
	wall    *time.Timer  // nil without a limit
	reached atomic.Pointer[messages.Limit]
	once    sync.Once
}

// clock starts the clock, and disarm stops it.
func (c *child) clock() {
	if most := c.launch.Limits.WallTime; most > 0 {
		c.bounds.wall = time.AfterFunc(most, func() { c.reach(messages.LimitWallTime) })
	}
}

func (c *child) disarm() {
	if c.bounds.wall != nil {
		c.bounds.wall.Stop()
	}
}

// reach notes that the tree has reached a limit, and ends it. Only the first limit counts, and none after the leader's exit. A
// command that has used up its time gets a grace to clean up. The other limits give no grace.
func (c *child) reach(limit messages.Limit) {
	c.bounds.once.Do(func() {
		c.bounds.reached.Store(&limit) // at once: a leader may die because its output is no longer read
		go c.endAt(limit)
	})
}

func (c *child) endAt(limit messages.Limit) {
	<-c.spawned
	if c.dead || c.over() {
		return
	}
	grace := time.Duration(0)
	if limit == messages.LimitWallTime {
		grace = DefaultGrace
		if c.launch.Grace != nil {
			grace = max(*c.launch.Grace, 0)
		}
	}
	c.leader.EndTree(grace)
}

// limit returns the limit that the child had reached when its leader exited.
func (c *child) limit() (limit messages.Limit) {
	c.bounds.once.Do(func() {}) // no limit counts after this
	if reached := c.bounds.reached.Load(); reached != nil {
		limit = *reached
	}
	return limit
}

// allowed returns how many bytes of a batch may be delivered. While the leader lives, bytes beyond the limit may not.
func (c *child) allowed(n int) int {
	most := c.launch.Limits.OutputBytes
	if most <= 0 {
		return n
	}
	select {
	case <-c.exited:
		if limit := c.bounds.reached.Load(); limit == nil || *limit != messages.LimitOutput {
			return n
		}
	default:
	}
	before := c.bounds.output.Add(int64(n)) - int64(n)
	if before+int64(n) <= most {
		return n
	}
	c.reach(messages.LimitOutput)
	return int(max(0, most-before))
}
