package actors

import (
	"context"
	"fmt"
	"slices"

	"github.com/execbus/execbus/messages"
)

// Approver answers questions on a person's behalf. Its context ends when nobody waits for the answer any more.
type Approver func(context.Context, messages.Question) (messages.Decision, error)

// approverSaid is what an approver's call came to.
type approverSaid struct {
	question messages.QuestionID
	decision messages.Decision
	failed   string
}

// call lets the host's approver answer, in a goroutine.
func (a *approval) call(q *question) {
	self, sys, approver, shown := a.ctx.Self(), a.ctx.System(), a.approver, q.Question // the goroutine must not touch the actor
	wanted, leave := context.WithCancel(context.Background())
	q.leave = leave
	a.ctx.Go(func(ctx context.Context) any {
		defer leave()
		defer context.AfterFunc(ctx, leave)()
		said := approverSaid{question: shown.ID, failed: "it ended its goroutine"}
		defer func() {
			if reason := recover(); reason != nil {
				said.failed = fmt.Sprintf("it panicked: %v", reason)
			}
			sys.Send(self, said)
		}()
		decision, err := approver(wanted, shown)
		said.decision, said.failed = decision, ""
		if err != nil {
			said.failed = err.Error()
		}
		return nil
	})
}

// approverSaid takes an approver's answer. If it has none somebody else may still answer.
func (a *approval) approverSaid(m approverSaid) {
	q := a.open(m.question)
	if q == nil {
		return
	}
	if m.failed == "" {
		if err := q.check(m.decision); err != nil {
			m.failed = err.Error()
		}
	}
	if m.failed == "" {
		a.resolve(q, m.decision, messages.ByPerson)
		return
	}
	a.logger.Warn("the approver did not answer", "question", string(m.question), "reason", m.failed)
	q.failed = m.failed
	a.refuseUnheard()
	a.next()
}

// audience reports whether anybody may answer a question.
func (a *approval) audience(from messages.Origin, failed string) bool {
	return a.approver != nil && failed == "" || a.bus.Listening(messages.KindApprovalRequested, from)
}

// refuseUnheard ends the questions that nobody can answer any more.
func (a *approval) refuseUnheard() {
	for _, q := range slices.Clone(a.queue) {
		if !q.closed && !a.audience(q.consult.origin, q.failed) {
			a.finish(q, verdict{plan: q.consult.plan, source: messages.ByAbsence, refusal: nobody(q.failed)})
		}
	}
}
