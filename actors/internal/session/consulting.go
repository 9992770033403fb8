package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/approval"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// consultation is a supervisor's part of asking a person.
type consultation struct {
	actor  *system.PID // that asks; nil when two have crashed
	starts int
	busy   chan struct{}     // holds a token while the approver is called, whichever actor has called it
	keeper *system.PID       // of the rules
	rules  protocol.NewRules // the newest
	queue  []*entry          // commands without a plan, and those that ask behind one, in the order of their calls
	timer  *system.Timer     // for the first of the queue; nil if nobody waits behind it
}

// maxApprovals is how many approval actors a session has in its life: one that crashes is replaced once, without the
// approvals that it remembered.
const maxApprovals = 2

// startApproval starts the actor that asks. It ends with the session.
func (v *supervisor) startApproval() {
	v.asking.actor = approval.Spawn(v.ctx, approval.Config{Session: v.Session, Rulebook: v.asking.keeper, Rules: v.asking.rules, Approver: v.config.Approver,
		Busy: v.asking.busy, Deadline: v.config.ApprovalDeadline, OnDeadline: v.config.OnDeadline, Earlier: v.asking.starts})
	v.asking.starts++
}

// approvalCrashed goes on with another actor, or without one. Commands that wait for an answer are refused; without an
// actor, so are commands that would need a question. The crashed actor has sent the answers that it could.
func (v *supervisor) approvalCrashed(m system.Crashed) {
	v.asking.actor = nil
	text := fmt.Sprintf("the approval service has crashed (%v): the commands that waited for an answer were rejected", m.Reason)
	if v.asking.starts < maxApprovals {
		v.startApproval()
		text += ", and the approvals for the session are forgotten"
	} else {
		text += ", and every command that needs a question is rejected from now on"
	}
	v.Bus.Publish(messages.ExecNotice{Origin: messages.Origin{Session: v.SessionID, At: time.Now()}, Text: text})
	for id, e := range v.entries {
		if e.consulting && e.asks == nil {
			v.verdict(protocol.Verdict{Process: id, Source: messages.DecidedByAbsence, Refusal: shared.Rejected("it needs approval, and " + protocol.ErrNoApproval.Detail)})
		}
	}
}

// consult asks about an attempt of a process, which waits. The first question about a command waits for the plans of the commands
// before it, so that questions come in the order of the calls.
func (v *supervisor) consult(m protocol.Consult) {
	if m.Asker != nil { // of a patch
		v.putQuestion(m)
		return
	}
	e := v.entries[m.Process]
	if e == nil {
		return
	}
	e.consulting = true
	if !slices.Contains(v.asking.queue, e) { // its plan came late, or it has begun
		v.putQuestion(m)
		return
	}
	e.asks = &m
	v.serveQueue()
}

// serveQueue passes on the questions that wait for no earlier plan. A command whose plan takes too long is not waited for.
func (v *supervisor) serveQueue() {
	for len(v.asking.queue) > 0 {
		e := v.asking.queue[0]
		left := v.Patience.Plan - time.Since(e.came)
		if e.asks == nil && left > 0 {
			if v.asking.timer == nil && slices.ContainsFunc(v.asking.queue, func(other *entry) bool { return other.asks != nil }) {
				v.asking.timer = v.ctx.After(left, planOverdue{})
			}
			return
		}
		v.asking.queue = slices.Delete(v.asking.queue, 0, 1)
		if m := e.asks; m != nil {
			e.asks = nil
			v.putQuestion(*m)
		}
	}
}

// leaveQueue takes a command that asks nothing out of the queue.
func (v *supervisor) leaveQueue(e *entry) {
	if i := slices.Index(v.asking.queue, e); i >= 0 && e.asks == nil {
		v.asking.queue = slices.Delete(v.asking.queue, i, i+1)
		v.serveQueue()
	}
}

// putQuestion passes a question to the approval actor.
func (v *supervisor) putQuestion(m protocol.Consult) {
	if v.asking.actor == nil {
		m.Discard()
		v.ctx.Send(v.ctx.Self(), protocol.Verdict{Process: m.Process, Plan: m.Plan, Source: messages.DecidedByAbsence, Refusal: shared.Rejected("it needs approval, and " + protocol.ErrNoApproval.Detail)})
		return
	}
	v.ctx.Send(v.asking.actor, m)
}

// withdraw withdraws a question. A verdict still follows.
func (v *supervisor) withdraw(m protocol.Withdraw) {
	switch e := v.entries[m.Process]; {
	case m.Asker != nil && v.asking.actor != nil: // a patch
		v.ctx.Send(v.asking.actor, m)
	case e != nil && e.consulting:
		v.withdrawAsked(e)
	}
}

func (v *supervisor) withdrawAsked(e *entry) {
	switch {
	case e.asks != nil:
		e.asks.Discard()
		e.asks = nil
		v.ctx.Send(v.ctx.Self(), protocol.Verdict{Process: e.info.Process})
	case v.asking.actor != nil:
		v.ctx.Send(v.asking.actor, protocol.Withdraw{Process: e.info.Process})
	}
}

// verdict passes an answer on to the process that asked. If the process has ended meanwhile, it is released.
func (v *supervisor) verdict(m protocol.Verdict) {
	e := v.entries[m.Process]
	if e == nil || !e.consulting {
		return
	}
	e.consulting = false
	switch {
	case e.last != nil:
		v.finish(e, *e.last)
	case e.takeover != nil:
		v.closeTakeover(e)
	default:
		v.ctx.Send(e.actor, m)
	}
}

// toApproval passes a caller's request on to the approval actor, which answers at once.
func (v *supervisor) toApproval(message any) {
	if v.asking.actor == nil {
		v.ctx.Respond(protocol.ErrNoApproval)
		return
	}
	v.ctx.SendFor(v.ctx.Sender(), v.asking.actor, message)
}

// newRules takes the rules that hold for commands from now on.
func (v *supervisor) newRules(m protocol.NewRules) {
	if m.Version <= v.asking.rules.Version {
		return
	}
	settings := *v.settings
	settings.Rules = m.Rules
	v.asking.rules, v.settings = m, &settings
	if v.asking.actor != nil {
		v.ctx.Send(v.asking.actor, m)
	}
}
