package actors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// waiter is a call that waits inside a process for output. Waiters are served one after the other: only the first one's
// clock runs, and it takes the output.
type waiter struct {
	asker     *kernel.PID
	began     time.Time // when the call arrived
	left      time.Duration
	endless   bool // no deadline
	poll      bool // sent nothing: a write ends it
	writing   bool // the process has not taken all of its bytes yet
	late      bool // its deadline came meanwhile
	last      bool // its clock was prolonged for the last time
	maxTokens int
	taken     int
	inputErr  *messages.Error

	since time.Time     // when its clock was started
	clock *kernel.Timer // nil while it does not run
}

// deadline says that a waiter has waited long enough.
type deadline struct{ waiter *waiter }

// await puts a waiter into the queue.
func (p *process) await(w *waiter) {
	w.asker, w.began = p.ctx.Sender(), time.Now()
	p.waiters = append(p.waiters, w)
	p.serve()
	p.answerExit() // of which nobody may have been told yet
}

// serve starts the first waiter's clock, or ends it if it is a poll and a write waits behind it.
func (p *process) serve() {
	if len(p.waiters) == 0 || p.paused > 0 || p.state == messages.StateClosed { // at the end all are answered anyway
		return
	}
	switch w := p.waiters[0]; {
	case w.poll && slices.ContainsFunc(p.waiters, func(other *waiter) bool { return !other.poll }):
		p.finish(w)
	case w.clock == nil && !w.endless && !w.late:
		w.since = time.Now()
		w.clock = p.ctx.After(w.left, deadline{w})
	}
}

// hold stops the first waiter's clock.
func (p *process) hold() {
	if len(p.waiters) == 0 {
		return
	}
	if w := p.waiters[0]; w.clock != nil && !w.last {
		w.clock.Cancel()
		w.clock = nil
		w.left = max(w.left-time.Since(w.since), 0)
	}
}

// expired answers a waiter whose time is over, unless it does not know yet what became of its bytes, or the leader has
// just exited and the rest of what is to be said of that is under way.
func (p *process) expired(w *waiter) {
	w.clock, w.late = nil, true
	switch exited := p.state == messages.StateExited || p.suspect != nil && p.denied == nil; {
	case !w.last && exited && (w.writing || !p.settled()):
		p.lastWait(w)
	case !w.last && w.writing: // wrote answers
	default:
		p.finish(w)
	}
}

// lastWait gives a waiter a little more time, once.
func (p *process) lastWait(w *waiter) {
	if w.last {
		return
	}
	w.clock.Cancel()
	w.late, w.last = true, true
	w.clock = p.ctx.After(ptyio.DrainWait, deadline{w})
}

// remove takes a waiter out of the queue; false if it is not in it. The next is served when this one has its answer.
func (p *process) remove(w *waiter) bool {
	for i, other := range p.waiters {
		if other == w {
			w.clock.Cancel()
			p.waiters = append(p.waiters[:i:i], p.waiters[i+1:]...)
			return true
		}
	}
	return false
}

// answer ends a waiter's call without a result.
func (p *process) answer(w *waiter, failure error) {
	if p.remove(w) {
		p.tell(w.asker, failure)
		p.serve()
	}
}

// finish ends a waiter's call with its result. One that does not wait any more takes no output.
func (p *process) finish(w *waiter) {
	if p.remove(w) {
		p.tell(w.asker, p.result(w))
		p.serve()
	}
}

// tell replies to a caller that the supervisor knows of.
func (p *process) tell(asker *kernel.PID, reply any) {
	if asker != nil {
		p.ctx.Send(asker, reply)
		p.ctx.Send(p.supervisor, answered{p.id, asker})
	}
}

// result takes the output.
func (p *process) result(w *waiter) *messages.Result {
	r := &messages.Result{Process: p.id, Call: p.order.Call, Running: p.usable(), Status: p.status, Lost: p.lost, Background: p.background,
		ChunkID: chunkID(), WallTime: time.Since(w.began), MaxOutputTokens: w.maxTokens,
		Taken: w.taken, InputErr: w.inputErr, Denial: p.denial}
	if w.writing {
		r.InputErr = &messages.Error{Code: messages.CodeInputNotTaken, Op: "write", Subject: p.id.String(),
			Detail: "the program has exited and had not taken all bytes by then"}
	}
	p.output.take(r)
	p.told = p.told || p.state == messages.StateExited || p.state == messages.StateClosed
	if w.poll && r.Running {
		p.bus.Publish(messages.TerminalInteraction{Origin: p.origin()})
	}
	return r
}

// usable says whether a model may go on with the process: its leader lives or is still to come, or its background children
// were kept.
func (p *process) usable() bool {
	switch p.state {
	case messages.StateExited:
		return p.background != nil && p.background.Kept && p.ending == nil
	case messages.StateClosed:
		return false
	default:
		return true
	}
}

// settled says whether everything the leader wrote is here, and it is known what becomes of its children.
func (p *process) settled() bool { return p.drained && (p.background != nil || p.treeEnded) }

// answerExit answers those who waited for the leader's exit. Who came after the exit was told waits for the end.
func (p *process) answerExit() {
	if p.state != messages.StateExited || !p.settled() || p.order.run != nil {
		return
	}
	for _, w := range slices.Clone(p.waiters) {
		switch {
		case p.told && !w.began.Before(p.exitedAt):
		case w.writing:
			p.lastWait(w)
		default:
			p.finish(w)
		}
	}
}

// answerEnd answers everybody when the process has ended: with what is left, or that there is nothing any more.
func (p *process) answerEnd(record *messages.EndRecord) {
	for len(p.waiters) > 0 {
		w := p.waiters[0]
		if p.told && p.output.unread.Total() == 0 && !w.began.Before(p.exitedAt) {
			p.answer(w, endedError(p.id, record))
		} else {
			p.finish(w)
		}
	}
}

// cancel takes back the call of an asker, if it still waits.
func (p *process) cancel(asker string) {
	for _, w := range p.waiters {
		if w.asker != nil && w.asker.Id == asker {
			p.answer(w, &messages.Error{Code: messages.CodeCancelled, Op: "wait for process", Subject: p.id.String(),
				Detail: "the call was cancelled and nothing was taken"})
			p.unasked(w == p.initial)
			return
		}
	}
	if p.starter != nil && p.starter.Id == asker {
		p.unasked(true)
		return
	}
	if p.order.run != nil && p.runner != nil && p.runner.Id == asker {
		p.cancelRun()
	}
}

func endedError(id messages.ProcessID, record *messages.EndRecord) error {
	return &messages.Error{Code: messages.CodeProcessEnded, Op: "use process", Subject: id.String(),
		Detail: "the process has ended: " + record.String(), Hint: "read its remembered output, or start it anew", Ended: record}
}

// chunkID is six random hexadecimal digits.
func chunkID() string { return fmt.Sprintf("%06x", rand.IntN(1<<24)) }
