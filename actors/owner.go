package actors

import (
	"slices"

	"github.com/execbus/execbus/messages"
)

// turnAborted comes from the approval actor: a person has stopped an owner's turn. The verdicts about its questions come
// before it.
type turnAborted struct{ owner string }

// endOwner ends the processes of an owner. Its calls need not wait for that.
func (v *supervisor) endOwner(owner string) {
	v.sweep(messages.TerminatedByOwner, func(e *entry) bool { return owner != "" && e.info.Owner == owner })
	v.letOwnedGo(owner)
}

// letOwnedGo cancels the calls that wait for processes of an owner.
func (v *supervisor) letOwnedGo(owner string) {
	for _, e := range v.entries {
		if owner != "" && e.info.Owner == owner {
			v.ctx.Send(e.actor, letCallsGo{})
		}
	}
}

// letCallsGo cancels the waiting calls, except that of a run, which ends with its command. A command that has not begun, and that
// needs approval, is ended with them. Input that was queued without waiting is not withdrawn.
func (p *process) letCallsGo() {
	begun := p.attempt != nil
	for _, c := range slices.Clone(p.calls) {
		if c.caller != (caller{}) && c.kind != jobCall && (c.kind != runCall && c.kind != startCall || !begun) {
			p.cancel(c.call)
		}
	}
}

// abort rejects the open questions of all owners of a question that a person answered with abort, and tells the supervisor.
func (a *approval) abort(aborted *question, source messages.DecisionSource) {
	var owners []string
	for _, c := range aborted.consults {
		if c.owner != "" && !slices.Contains(owners, c.owner) {
			owners = append(owners, c.owner)
		}
	}
	d := messages.Decision{Kind: messages.DecisionAborted}
	for _, q := range slices.Clone(a.queue) {
		if q.closed {
			continue
		}
		kept, v := q.consults[:0:0], verdict{plan: q.first().plan, decision: d.Kind, source: source, refusal: refusalOf(d)}
		var gone []consult
		for _, c := range q.consults {
			if slices.Contains(owners, c.owner) {
				gone = append(gone, c)
			} else {
				kept = append(kept, c)
			}
		}
		if len(kept) == 0 {
			a.finish(q, v)
			continue
		}
		q.consults = kept
		for _, c := range gone {
			a.tell(c, v)
		}
	}
	for _, owner := range owners {
		a.ctx.Send(a.supervisor, turnAborted{owner})
	}
}
