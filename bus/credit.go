package bus

import "sync/atomic"

// Credit is one unit of a publisher's flow control. It counts who still uses the output that was published with it, and it
// tells the publisher when nobody does. The publisher may then read its next batch, for example.
//
// The publisher holds a credit from NewCredit to Release. Every lossless subscription holds it once for each of its output
// events that is queued or being handled. Others may hold it, too. When the last hold is gone, the release function runs, once. A credit may go with
// any number of output events, and an output event with several credits.
//
// All methods may be called from any goroutine.
type Credit struct {
	holds    atomic.Int64
	returned atomic.Bool // the publisher's own hold is gone
	release  func()
}

// NewCredit makes a credit that the caller holds. release must not be nil. It runs on the goroutine that gives back the last
// hold: that of a publisher, of a reader in Next, or of a caller that closes a subscription or the bus. It must not block.
// No lock of the bus is held meanwhile, so it may call the bus.
func NewCredit(release func()) *Credit {
	c := &Credit{release: release}
	c.holds.Store(1)
	return c
}

// Release gives back the publisher's hold. Call it after the last PublishOutput with this credit. Further calls do nothing,
// and so does the call on a nil Credit.
func (c *Credit) Release() {
	if c != nil && !c.returned.Swap(true) {
		c.Drop()
	}
}

// Hold adds a hold, for a user that is no subscription; Drop gives it back. It reports false for a nil credit, and for one whose last hold
// is gone: a spent credit must not come back to life.
func (c *Credit) Hold() bool {
	if c == nil {
		return false
	}
	for {
		n := c.holds.Load()
		if n == 0 {
			return false
		}
		if c.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Drop gives back a hold.
func (c *Credit) Drop() {
	if c.holds.Add(-1) == 0 {
		c.release()
	}
}

// join makes one credit of several. It holds each of them until its own last hold is gone. It returns nil if there is
// nothing to hold, and a single credit unchanged.
func join(credits []*Credit) *Credit {
	if len(credits) == 1 {
		return credits[0]
	}
	var held []*Credit
	for _, c := range credits {
		if c.Hold() {
			held = append(held, c)
		}
	}
	if held == nil {
		return nil
	}
	return NewCredit(func() { dropAll(held) })
}

func dropAll(held []*Credit) {
	for _, c := range held {
		c.Drop()
	}
}
