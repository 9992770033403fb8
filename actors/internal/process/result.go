package process

import (
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// result takes the output that has not been taken, and describes the state of the process.
func (p *process) result(c *call) *messages.Result {
	r := &messages.Result{Process: p.id, Call: p.command.Call, Running: p.usable(), Status: p.status(), Lost: p.lost(),
		ChunkID: output.ChunkID(), WallTime: time.Since(c.began) - c.clock.pausedFor(), MaxOutputTokens: c.budget.Tokens, MaxOutputBytes: c.budget.Bytes, Denial: p.denial}
	if s, is := p.state.(*starting); is {
		r.Waiting = s.waits
	}
	if s, is := p.state.(*running); is && (s.between() || s.stage == judging) { // the exit is not reported before it is judged
		r.Status = messages.StatusNone()
	}
	if a := p.attempt; a != nil {
		r.Background = a.background
	}
	r.Met, r.BlockedHosts, r.RefusedExecutions = p.met(c), p.newlyBlocked(), p.executed.news()
	switch limit := p.reached(); {
	case r.Running:
	case p.ending.first != nil:
		r.Cause, r.By = messages.CauseTerminated, p.ending.first.By
	case limit != "":
		r.Cause, r.By, r.Limit = messages.CauseTerminated, messages.TerminatedByLimit, limit
	}
	p.inputPart(r, c.write)
	p.output.Take(r, r.Running)
	_, over := p.state.(*closed)
	_, dead := p.state.(*exited)
	p.told = p.told || dead || over
	if c.kind == pollCall && r.Running {
		p.Bus.Publish(messages.TerminalInteraction{Origin: p.origin()})
	}
	return r
}

// inputPart reports the outcome of the call's own write, and of writes that were answered before theirs was known.
func (p *process) inputPart(r *messages.Result, w *write) {
	r.EarlierInput, p.input.news = p.input.news, nil
	if w == nil {
		return
	}
	r.Taken, r.InputErr = w.soFar(), w.err
	switch {
	case w.done:
	case r.Running:
		r.Pending = len(w.bytes) - r.Taken
	default:
		r.InputErr = &messages.Error{Code: messages.ErrInputNotTaken, Op: "write", Subject: p.id.String(),
			Detail: "the program exited before it had taken all bytes; the rest is lost"}
	}
}

// usable reports whether a model can go on with the process: its leader lives or has yet to start, or its background
// children were kept.
func (p *process) usable() bool {
	switch p.state.(type) {
	case *exited:
		background := p.attempt.background
		return background != nil && background.Kept && !p.ending.wanted
	case *closed:
		return false
	default:
		return true
	}
}

// wakeup is the answer to a wait: what it waited for, or the leader's exit.
func (p *process) wakeup(c *call) protocol.Observed {
	w := &messages.Wakeup{Item: c.item, Process: p.id, Call: p.command.Call, At: time.Now(), Status: messages.StatusNone()}
	if c.until != nil && c.until.met != nil {
		w.Met = *c.until.met
	} else {
		w.Met = messages.Met{Reason: messages.MetExit, Offset: p.output.Log.Total()}
		w.Status, w.Lost = p.status(), p.lost()
		if at := p.exitedAt(); !at.IsZero() {
			w.At = at
		}
	}
	return protocol.Observed{Target: protocol.Target{Item: c.item, Process: p.id}, Wakeup: w}
}

// exitedAt is when the leader of the current attempt exited; zero if it has not.
func (p *process) exitedAt() (at time.Time) {
	if p.attempt != nil {
		at = p.attempt.exitedAt
	}
	return at
}
