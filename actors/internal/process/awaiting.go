package process

import (
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// awaitingApproval is the state in which somebody is asked about the first attempt.
type awaitingApproval struct{}

func (*awaitingApproval) name() messages.ProcessState { return messages.StateAwaitingApproval }

func (*awaitingApproval) enter(p *process) { p.consult(nil) }

func (*awaitingApproval) receive(p *process, message any) bool {
	m, mine := message.(protocol.Verdict)
	if mine && p.answered(m) {
		p.advance(&starting{})
	}
	return mine
}

// answered acts on the answer about the first attempt. It reports whether the command may run.
func (p *process) answered(m protocol.Verdict) bool {
	p.decided(m)
	if m.Refusal != nil {
		p.refused(m)
		return false
	}
	p.releaseAsker()
	p.armRun()
	p.decision.plan = m.Plan
	return true
}

func (*awaitingApproval) terminate(p *process, _ messages.Terminate) { p.failed(nil) }

func (*awaitingApproval) unasked(p *process) { p.aborted() }

// consult asks for a verdict: about the first attempt, or about another after a denial. Meanwhile the clock of the call
// that asked for the command stands still, and no other does.
func (p *process) consult(denial *messages.Denial) {
	if c := p.asker(); c != nil {
		p.holdCall(c)
	}
	p.run.hold()
	d := p.decision
	p.latch, p.consulted = make(protocol.Latch, 1), time.Now()
	p.ctx.Send(p.supervisor, protocol.Consult{Process: p.id, Request: d.request, Snapshot: d.snapshot, Plan: d.plan, Denial: denial,
		Origin: p.origin(), Latch: p.latch, Owner: p.command.Owner})
}

// releaseAsker lets the clock of the call that asked for the command go on.
func (p *process) releaseAsker() {
	if c := p.asker(); c != nil {
		p.releaseCall(c)
	}
}

// askedAbout holds all clocks while a person is asked about hosts that the command wants to talk to, or about programs that it executes.
func (p *process) askedAbout(open bool) {
	if open {
		p.asked = time.Now()
		p.hold()
		p.run.pause()
		return
	}
	p.waited = p.waitedSoFar()
	p.asked = time.Time{}
	p.release()
	p.run.resume(p.ctx)
}

// waitedSoFar is how long the command has waited for a person.
func (p *process) waitedSoFar() time.Duration {
	if p.asked.IsZero() {
		return p.waited
	}
	return p.waited + time.Since(p.asked)
}

// refused ends a command that must not run.
func (p *process) refused(v protocol.Verdict) {
	record := &messages.EndRecord{Cause: messages.CauseRejected, Status: messages.StatusNone(), Detail: v.Refusal.Detail, Waited: p.waited}
	if v.Refusal.Code == messages.ErrAborted {
		record.Cause = messages.CauseAborted
	}
	p.close(record, v.Refusal)
}

// aborted ends a command that needs approval, because the call that asked for it was cancelled.
func (p *process) aborted() {
	failure := abandonedError(p.id)
	record := &messages.EndRecord{Cause: messages.CauseAborted, Status: messages.StatusNone(), Detail: failure.Detail}
	if !p.consulted.IsZero() {
		record.Waited = time.Since(p.consulted)
	}
	p.close(record, failure)
}

func abandonedError(id messages.ProcessID) *messages.Error {
	return &messages.Error{Code: messages.ErrCancelled, Op: "exec", Subject: id.String(),
		Detail: "the call was cancelled while it waited for approval"}
}
