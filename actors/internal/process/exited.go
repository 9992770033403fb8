package process

import (
	"cmp"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// exited is the state in which the leader is dead, but its tree, its output or its input has not ended.
type exited struct{}

func (*exited) name() messages.ProcessState { return messages.StateExited }

func (s *exited) enter(p *process) {
	p.Bus.Publish(messages.ExecExited{Origin: p.origin(), Status: p.status()})
	p.keyboardReturned(messages.ReturnedAtEnd)
	if p.run != nil {
		p.ctx.After(messages.RunDrain+p.grace(messages.Terminate{}), runDrained{})
	}
	p.answerKept(false)
	s.step(p)
}

func (s *exited) receive(p *process, message any) bool {
	switch m := message.(type) {
	case protocol.ChildEvent:
		if _, again := m.Event.(ptyio.Exited); again || m.Attempt != p.attempt.number {
			return false
		}
		known := p.learn(m.Event)
		s.step(p)
		return known
	case runDrained:
		p.finishRun()
	case protocol.Verdict, judgeNow: // too late
	default:
		return p.timeIsUp(message)
	}
	return true
}

// terminate ends a tree that was kept. A leader that has exited by itself does not count as terminated, even if its tree
// is.
func (s *exited) terminate(p *process, m messages.Terminate) {
	p.limitOutput()
	p.endTree(p.grace(m))
}

func (*exited) unasked(*process) {}

// step reports the news, and ends the process when the leader, its output, its tree and its input have ended.
func (s *exited) step(p *process) {
	a := p.attempt
	if a.closed {
		p.closeOutput()
	}
	p.answerExit()
	if !a.over() {
		return
	}
	if p.input.open() == 0 {
		p.close(s.record(p), nil)
	} else {
		p.limitInput()
	}
}

// record is how the process ended.
func (s *exited) record(p *process) *messages.EndRecord {
	a := p.attempt
	record := &messages.EndRecord{Cause: messages.CauseExited, Status: p.status(), Tree: joined(p.past, a.tree), Denial: p.denial,
		Duration: a.exitedAt.Sub(a.bornAt), Waited: p.waitedSoFar()}
	switch {
	case p.lost() != "":
		record.Cause, record.Detail = messages.CauseRuntimeFailure, p.lost()
	case p.ending.first != nil:
		record.Cause, record.By = messages.CauseTerminated, p.ending.first.By
	case a.exit.Limit != "":
		record.Cause, record.By, record.Limit = messages.CauseTerminated, messages.TerminatedByLimit, a.exit.Limit
	case p.refusal != nil && p.refusal.Code == messages.ErrAborted:
		record.Cause, record.Detail = messages.CauseAborted, p.refusal.Detail
	case p.refusal != nil:
		record.Cause, record.Detail = messages.CauseSandboxDenied, p.refusal.Detail
	case p.denial != nil:
		record.Cause, record.Detail = messages.CauseSandboxDenied, p.denial.String()
	}
	record.BlockedHosts, record.Executions = p.blockedHosts(), p.executed.report()
	if a.dropped {
		record.Detail = cmp.Or(record.Detail, "the end of its output was dropped: a lossless subscription did not take it")
	}
	return record
}
