package bus

import "sync/atomic"

// Credit is one unit of a publisher's flow control: a reference-counted hold on something the publisher wants back when
// everyone is done with the output it published, such as the right to read the next batch.
//
// The publisher holds a credit from NewCredit to Release; every lossless subscription holds it once for each output event
// that it has queued or is handling. When the last hold is gone the release function runs, once. One credit may go with
// any number of output events, and an event with several.
//
// All methods may be called from any goroutine.
type Credit struct {
	holds    atomic.Int64
	returned atomic.Bool // the publisher's own hold is gone
	release  func()
}

// NewCredit makes a credit that the caller holds. release must not be nil. It runs on the goroutine that gives back the
// last hold: a publisher, a reader in Next, or the closer of a subscription or of the bus. It must not block; it runs
// without any lock of the bus held and may call the bus.
func NewCredit(release func()) *Credit {
	c := &Credit{release: release}
	c.holds.Store(1)
	return c
}

// Release gives back the publisher's hold. The publisher calls it after the last PublishOutput with this credit; further
// calls do nothing. A nil Credit may be released.
func (c *Credit) Release() {
	if c != nil && !c.returned.Swap(true) {
		c.drop()
	}
}

// hold adds a hold. It reports false where there is nothing to hold: no credit, or one that is already spent and must
// not come back to life.
func (c *Credit) hold() bool {
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

func (c *Credit) drop() {
	if c.holds.Add(-1) == 0 {
		c.release()
	}
}

// join makes one credit of several that holds each of them until its own last hold is gone; nil where there is nothing to
// hold. A single one stands for itself.
func join(credits []*Credit) *Credit {
	if len(credits) == 1 {
		return credits[0]
	}
	var held []*Credit
	for _, c := range credits {
		if c.hold() {
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
		c.drop()
	}
}
