package session

import (
	"fmt"
	"time"

	"github.com/execbus/execbus/actors/internal/approval"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// approvalActor is what a session knows of the actor that asks.
type approvalActor struct {
	actor  *system.PID // nil when two have crashed
	starts int
	busy   chan struct{}     // holds a token while the approver is called, whichever actor has called it
	keeper *system.PID       // of the rules
	rules  protocol.NewRules // the newest
}

// maxApprovals is how many approval actors a session has in its life: one that crashes is replaced once, without the
// approvals that it remembered.
const maxApprovals = 2

// startApproval starts the actor that asks. It ends with the session.
func (v *supervisor) startApproval() {
	v.approval.actor = approval.Spawn(v.ctx, approval.Config{Session: v.Session, Rulebook: v.approval.keeper, Rules: v.approval.rules, Approver: v.config.Approver,
		Busy: v.approval.busy, Deadline: v.config.ApprovalDeadline, OnDeadline: v.config.OnDeadline, Earlier: v.approval.starts})
	v.approval.starts++
}

// approvalCrashed goes on with another actor, or without one. Commands that wait for an answer are refused; without an
// actor, so are commands that would need a question. The crashed actor has sent the answers that it could.
func (v *supervisor) approvalCrashed(m system.Crashed) {
	v.approval.actor = nil
	text := fmt.Sprintf("the approval service has crashed (%v): the commands that waited for an answer were rejected", m.Reason)
	if v.approval.starts < maxApprovals {
		v.startApproval()
		text += ", and the approvals for the session are forgotten"
	} else {
		text += ", and every command that needs a question is rejected from now on"
	}
	v.granted(protocol.HostGrants{})
	v.Bus.Publish(messages.ExecNotice{Origin: messages.Origin{Session: v.SessionID, At: time.Now()}, Text: text})
	for id, e := range v.entries {
		if e.question.open && e.question.waits == nil {
			v.carryOut(v.verdict(protocol.Verdict{Process: id, Source: messages.DecidedByAbsence,
				Refusal: shared.Rejected("it needs approval, and " + protocol.ErrNoApproval.Detail)}))
		}
	}
}

// consult takes the question of a process, or of a patch, which waits for no plan.
func (v *supervisor) consult(m protocol.Consult) []effect {
	switch e := v.entries[m.Process]; {
	case m.Asker != nil:
		return []effect{{message: m}}
	case e != nil:
		return v.questions.ask(e, m)
	}
	return nil
}

// withdraw takes a question back. A verdict still follows.
func (v *supervisor) withdraw(m protocol.Withdraw) []effect {
	switch e := v.entries[m.Process]; {
	case m.Asker != nil:
		return []effect{{message: m}}
	case e != nil:
		return v.questions.withdraw(e)
	}
	return nil
}

// put passes a question on to the approval actor.
func (v *supervisor) put(m protocol.Consult) {
	if v.approval.actor == nil {
		m.Discard()
		if m.Asker != nil {
			return
		}
		v.ctx.Send(v.ctx.Self(), protocol.Verdict{Process: m.Process, Plan: m.Plan, Source: messages.DecidedByAbsence,
			Refusal: shared.Rejected("it needs approval, and " + protocol.ErrNoApproval.Detail)})
		return
	}
	v.ctx.Send(v.approval.actor, m)
}

// verdict passes an answer on to the process that asked, or releases it if it has ended meanwhile.
func (v *supervisor) verdict(m protocol.Verdict) []effect {
	e := v.entries[m.Process]
	if e == nil || !e.question.open {
		return nil
	}
	e.question.open = false
	if e.last != nil {
		return v.ended(*e.last)
	}
	return []effect{{entry: e, message: m}}
}

// toApproval passes a caller's request on to the approval actor, which answers at once.
func (v *supervisor) toApproval(message any) {
	if v.approval.actor == nil {
		v.ctx.Respond(protocol.ErrNoApproval)
		return
	}
	v.ctx.SendFor(v.ctx.Sender(), v.approval.actor, message)
}

// newRules takes the rules that hold for commands from now on.
func (v *supervisor) newRules(m protocol.NewRules) {
	if m.Version <= v.approval.rules.Version {
		return
	}
	settings := *v.settings
	settings.Rules = m.Rules
	if err := v.connect(&settings); err != nil { // a rule file is read as a whole or not at all
		v.Logger.Error("the network rules stay as they were", "reason", err.Error())
		settings.Network = v.settings.Network
	}
	v.approval.rules, v.settings = m, &settings
	if v.approval.actor != nil {
		v.ctx.Send(v.approval.actor, m)
	}
}
