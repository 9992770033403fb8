package actors

import "github.com/execbus/execbus/messages"

// startApproval starts the actor that asks. It ends with the session.
func (v *supervisor) startApproval() {
	a := &approval{surroundings: v.surroundings, supervisor: v.ctx.Self(), keeper: v.keeper, approver: v.config.Approver,
		patience: v.config.ApprovalDeadline, otherwise: v.config.OnDeadline, rules: v.rules}
	if a.otherwise == "" || a.otherwise == messages.Denied {
		a.otherwise = messages.TimedOut
	}
	v.approval = v.ctx.Spawn("approval", a.receive)
}

// approvalCrashed goes on without one: whoever waits for an answer is refused, and so is what would have to be asked.
func (v *supervisor) approvalCrashed() {
	v.approval = nil
	v.ask(false)
	for _, e := range v.entries {
		v.ctx.Send(e.actor, approvalLost{})
	}
}

func (v *supervisor) toApproval(message any) {
	if v.approval == nil {
		v.ctx.Respond(errNoApproval)
		return
	}
	v.ctx.Forward(v.approval, message)
}

var errNoApproval = &messages.Error{Code: messages.CodeRuntimeFailure, Op: "ask for approval",
	Detail: "the actor that asks has crashed", Hint: "open another session"}

// ask holds the deadlines of calls while a question is open. The host's own pauses are counted apart, so that neither can
// undo the other's.
func (v *supervisor) ask(open bool) {
	if open != v.asking {
		v.asking = open
		v.hold(open)
	}
}

// pauses is how many reasons there are to hold deadlines.
func (v *supervisor) pauses() int {
	if v.asking {
		return v.paused + 1
	}
	return v.paused
}

// newRules takes what holds for commands from now on.
func (v *supervisor) newRules(m newRules) {
	if m.version <= v.rules.version {
		return
	}
	settings := *v.settings
	settings.rules = m.rules
	v.rules, v.settings = m, &settings
	if v.approval != nil {
		v.ctx.Send(v.approval, m)
	}
}
