package process

import (
	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// closed is the state after the last event. The supervisor, which has the record, handles later messages.
type closed struct{}

func (*closed) name() messages.ProcessState { return messages.StateClosed }

func (*closed) enter(*process) {}

func (*closed) receive(*process, any) bool { return false }

func (*closed) terminate(*process, messages.Terminate) {}

func (*closed) unasked(*process) {}

// failed ends a command whose next attempt never ran, because of err or because it was terminated.
func (p *process) failed(err error) {
	if p.state.name() == messages.StateStarting {
		if s := p.attempt; s != nil && s.calls == nil {
			s.callOff()
		}
	}
	record := &messages.EndRecord{Cause: messages.CauseSpawnFailed, Status: messages.StatusNone(), Tree: p.past}
	typed := protocol.AsError("exec", err)
	switch {
	case p.ending.first != nil:
		record.Cause, record.By, record.Detail = messages.CauseTerminated, p.ending.first.By, "before it began"
		if p.attempt != nil && p.attempt.number > 1 {
			record.Detail = "before another attempt began"
		}
		p.close(record, protocol.EndedError(p.id, record))
		return
	case typed.Code == messages.ErrRuntimeFailure:
		record.Cause = messages.CauseRuntimeFailure
	case typed.Code == messages.ErrInvalidRequest && p.decision == nil: // the command was invalid, and leaves no record
		p.close(nil, typed)
		return
	}
	record.Detail = typed.Error()
	p.close(record, typed)
}

// close is the end: it hands the record to the supervisor, which publishes it, and answers everybody. Callers that waited
// for a command that never ran get failure, once the supervisor has been told, so that they do not find the process in its
// list.
func (p *process) close(record *messages.EndRecord, failure error) {
	if p.attempt != nil && p.attempt.number > 1 {
		p.attempt.closed = true // an earlier attempt may have had output
		p.closeOutput()
	}
	if p.attempt != nil {
		for _, m := range p.attempt.early.events {
			m.Discard()
		}
	}
	p.keyboardReturned(messages.ReturnedAtEnd)
	out, event := p.output.Output, p.endEvent()
	p.state = &closed{}
	if failure == nil {
		p.answerEnd(record)
	}
	p.ctx.Send(p.supervisor, protocol.Ended{Process: p.id, Record: record, Output: out, Told: p.told || failure != nil,
		Unreported: p.input.news, Event: event, ExitedAt: p.exitedAt()})
	if failure != nil {
		p.finishRunEarly()
		p.answerFailure(failure)
	}
	p.endLooks()
	p.decision.discard()
	// The remains of the actor may be kept for a while, and commands can be long.
	p.spooling.leave()
	p.output, p.decision, p.attempt, p.run, p.input, p.spooling = output.Feed{}, nil, nil, nil, input{}, nil
	p.command = shared.Command{ExecCommand: messages.ExecCommand{Call: p.command.Call}}
}

// closeOutput reports that no more output can come, once, and when no further attempt is possible.
func (p *process) closeOutput() {
	if p.attempt.closed && !p.outputTold {
		p.outputTold = true
		p.Bus.Publish(messages.OutputClosed{Origin: p.origin(), Total: p.output.Log.Total()})
		p.serveReaders()
	}
}
