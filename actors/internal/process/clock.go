package process

import (
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
)

// clock counts down the time that one call waits. It can be held, for more than one reason at once. The zero value has run
// out.
type clock struct {
	left    time.Duration
	endless bool
	holds   int
	begun   bool // it runs, or will when nothing holds it
	stopped bool
	since   time.Time     // when it began to run, while it runs
	timer   *system.Timer // nil while it does not run
	held    time.Duration // how long it was held in all
	heldAt  time.Time
}

// run begins the clock. It runs at once, unless it is held or has no end.
func (k *clock) run(ctx *system.Context, call protocol.CallID) {
	k.begun = true
	if k.timer == nil && k.holds == 0 && !k.endless && !k.stopped {
		k.since = time.Now()
		k.timer = ctx.After(k.left, deadline{call})
	}
}

// hold stops the clock, for one more reason.
func (k *clock) hold() {
	if k.holds++; k.holds > 1 {
		return
	}
	k.heldAt = time.Now()
	if k.timer != nil {
		k.timer.Cancel()
		k.timer = nil
		k.left = max(k.left-time.Since(k.since), 0)
	}
}

// release removes one reason. It does not start a clock that has not begun, such as that of a write that waits for another.
func (k *clock) release(ctx *system.Context, call protocol.CallID) {
	if k.holds--; k.holds == 0 {
		k.held += time.Since(k.heldAt)
		if k.begun {
			k.run(ctx, call)
		}
	}
}

// stop ends the clock for good.
func (k *clock) stop() {
	k.timer.Cancel()
	k.timer, k.stopped = nil, true
}

// ran is called when the time is over.
func (k *clock) ran() { k.timer, k.left = nil, 0 }

// prolong gives a clock another span of time, which cannot be held.
func (k *clock) prolong(ctx *system.Context, call protocol.CallID, d time.Duration) {
	k.timer.Cancel()
	k.held = k.pausedFor()
	k.left, k.holds = d, 0
	k.timer = ctx.After(d, deadline{call})
}

// pausedFor is the total time for which the clock has been held.
func (k *clock) pausedFor() time.Duration {
	if k.holds > 0 {
		return k.held + time.Since(k.heldAt)
	}
	return k.held
}
