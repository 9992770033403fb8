package actors

import (
	"time"

	"github.com/execbus/execbus/messages"
)

// waiter is a call that waits inside a process for its end or a deadline.
type waiter struct {
	asker *PID
	since time.Time
	timer *Timer
}

// deadline says that a waiter has waited long enough.
type deadline struct{ waiter *waiter }

// wait lets the sender of the message at hand wait.
func (p *process) wait(yield time.Duration) {
	if yield <= 0 {
		yield = messages.DefaultYield
	}
	w := &waiter{asker: p.ctx.Sender(), since: time.Now()}
	w.timer = p.ctx.After(min(max(yield, messages.MinYield), messages.MaxYield), deadline{w})
	p.waiters = append(p.waiters, w)
}

// finishWaiters answers those that match with what there is.
func (p *process) finishWaiters(match func(*waiter) bool) {
	var left []*waiter
	for _, w := range p.waiters {
		if !match(w) {
			left = append(left, w)
			continue
		}
		w.timer.Cancel()
		if w.asker == nil {
			continue
		}
		taken := p.output.unread.Drain()
		p.ctx.Send(w.asker, &messages.Result{Process: p.id, Running: p.state < exited, Status: p.status,
			Output: taken.WithMarker(), Omitted: taken.Omitted(), WallTime: time.Since(w.since)})
	}
	p.waiters = left
}
