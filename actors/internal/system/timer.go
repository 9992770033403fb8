package system

import (
	"context"
	"slices"
	"time"
)

// Timer is a message that an actor sends itself for later, or work that begins later.
type Timer struct {
	owner   *Context
	clock   *time.Timer
	message any
	works   bool // it is work, which the owner counts until it has ended
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

// Later is Go for work that begins after d, unless the timer is cancelled or the actor ends before. It costs less than a message
// at whose arrival the work begins: a goroutine instead of two, and a message less.
func (c *Context) Later(d time.Duration, work func(context.Context) any) *Timer {
	t := &Timer{owner: c, works: true}
	c.timers = append(c.timers, t)
	run := c.workOf(work, t)
	t.clock = time.AfterFunc(d, run)
	return t
}

// Cancel prevents the delivery, even if the message waits in the mailbox already. It reports whether it has prevented work; the result of work
// that has begun is still delivered. Like After, only the actor may call it. On a nil, fired or cancelled timer it does nothing.
func (t *Timer) Cancel() (prevented bool) {
	if t == nil {
		return false
	}
	stopped := t.clock.Stop()
	if t.owner.forget(t) && t.works && stopped {
		t.owner.working--
		return true
	}
	return false
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
