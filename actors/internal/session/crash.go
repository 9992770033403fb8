package session

import (
	"fmt"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// crashed takes over from an actor that is gone. Other processes are not affected.
func (v *supervisor) crashed(m system.Crashed) {
	if v.approval.actor != nil && v.approval.actor.Equal(m.PID) {
		v.approvalCrashed(m)
		return
	}
	for _, e := range v.entries {
		if e.actor.Equal(m.PID) {
			v.takeOver(e, fmt.Sprintf("its actor crashed: %v", m.Reason))
			return
		}
	}
	v.release(m.PID)
	for _, id := range v.calls.that(func(c *openCall) bool { return c.home != nil && c.home.Equal(m.PID) }) {
		v.reply(id, &messages.Error{Code: messages.ErrRuntimeFailure, Op: "wait", Detail: fmt.Sprintf("its actor crashed: %v", m.Reason)})
	}
}

// handover keeps the last message of a process that its actor cannot send any more. The report of the crash follows.
func (v *supervisor) handover(m protocol.Handover) {
	if e := v.entries[m.Process]; e != nil {
		e.left = &protocol.Ended{Process: m.Process, Output: m.Output, Told: true, Event: m.Event,
			Record: &messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: e.attempt.status, Detail: "its actor crashed"}}
	}
}

// takeOver answers the open calls of a process whose actor is gone, and ends its tree.
func (v *supervisor) takeOver(e *entry, why string) {
	if e.last != nil { // it had ended
		return
	}
	if e.left == nil { // it crashed at its very beginning
		v.handover(protocol.Handover{Process: e.info.Process, Output: output.New(), Event: protocol.EndEvent{Bus: v.Bus, Origin: v.origin(e)}})
	}
	e.crashed, e.left.Record.Detail = why, why
	for _, id := range v.calls.about(e, false) {
		v.reply(id, crashError(e))
	}
	v.carryOut(v.questions.withdraw(e))
	v.abandonLeft(e)
	v.carryOut(e.endLeft())
}

func crashError(e *entry) *messages.Error {
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "use process", Subject: e.info.Process.String(),
		Detail: e.crashed + "; the process was ended, start the command again"}
}

// abandonLeft ends the living child of a crashed process. A host's own child is abandoned if it does not end in time.
func (v *supervisor) abandonLeft(e *entry) {
	a := &e.attempt
	if a.child != nil {
		shared.Abandon(a.child)
	}
	if a.number < a.begun || a.child == nil || !ptyio.IsPrompt(a.child) { // the spawner may be a host's own, even if the child is prompt
		v.ctx.After(v.Patience.Spawn+v.Patience.End, takeoverOverdue{e})
	}
}

// leave answers everyone when the supervisor itself ends. If processes are left, it crashed, perhaps at a message that
// owed something, or was stopped by force; those whose actors live send their last messages themselves. It answers all
// the calls it knows of, even those that a process may be answering just now: a caller takes the first answer.
func (v *supervisor) leave() {
	for id, c := range v.calls.table {
		failure := &messages.Error{Code: messages.ErrClosed, Op: "use process", Detail: "the session has ended; open another one"}
		if c.entry != nil {
			failure.Subject = c.entry.info.Process.String()
		}
		v.reply(id, failure)
	}
	for _, e := range v.entries {
		v.Telemetry.Ended(e.span, &messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: e.attempt.status})
		v.questions.withdraw(e)
		switch {
		case e.last != nil:
			e.last.Discard()
		case e.left != nil:
			e.left.Discard()
			if e.crashed == "" && e.attempt.child != nil {
				shared.Abandon(e.attempt.child)
			}
		}
	}
	v.closeInquiries()
	v.closeNetwork()
	for _, r := range v.records.all {
		r.output.Close()
	}
	// The library's parent keeps a stale reference to an ended child until it has as many again.
	v.entries, v.calls, v.slots, v.teardowns, v.questions, v.records, v.terminations = nil, calls{}, slots{}, teardowns{}, questions{}, records{}, terminations{}
	v.over()
}

// owed keeps the obligations of a message at which the supervisor crashed.
func (v *supervisor) owed(at any) {
	switch m := at.(type) {
	case protocol.Ended:
		if e := v.entries[m.Process]; e != nil && e.last == nil {
			e.last = &m
		}
	case system.Discarder:
		m.Discard()
	}
}
