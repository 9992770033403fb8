package system

import (
	"slices"
	"time"
)

// Timer is a message that an actor sends itself for later.
type Timer struct {
	owner   *Context
	clock   *time.Timer
	message any
}

// fired is the message of a Timer to its actor.
type fired struct{ timer *Timer }

// After delivers message to this actor after d, unless the timer is cancelled or the actor ends before.
func (c *Context) After(d time.Duration, message any) *Timer {
	t := &Timer{owner: c, message: message}
	c.timers = append(c.timers, t)
	self := c.Self()
	t.clock = time.AfterFunc(d, func() { c.sys.Send(self, fired{t}) })
	return t
}

// Cancel prevents the delivery, even if the message waits in the mailbox already. Like After, only the actor may call
// it. On a nil, fired or cancelled timer it does nothing.
func (t *Timer) Cancel() {
	if t != nil {
		t.clock.Stop()
		t.owner.forget(t)
	}
}

// forget removes a timer, and reports whether it was there. An actor has few: a list is smaller than a map.
func (c *Context) forget(t *Timer) bool {
	i := slices.Index(c.timers, t)
	if i < 0 {
		return false
	}
	c.timers = slices.Delete(c.timers, i, i+1)
	return true
}
