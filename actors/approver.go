package actors

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// approverCall is the one call of the approver that is under way. The approver is asked one question at a time, and no
// other before it has returned.
type approverCall struct {
	question messages.QuestionID // empty: none is under way
	leave    context.CancelFunc
	overdue  *system.Timer // runs once the answer is not wanted any more
	hangs    bool          // it did not return in time after that
}

// errApproverHangs is the reason why a question cannot be put to the approver.
const errApproverHangs = "it has not returned from an earlier question"

// callApprover asks the host's approver, in a goroutine that nothing waits for.
func (a *approval) callApprover(q *question) {
	if a.approver == nil || a.calling.question != "" || q.called || q.closed {
		return
	}
	q.called = true
	self, sys, approver, shown := a.ctx.Self(), a.ctx.System(), a.approver, q.Question // the goroutine must not touch the actor
	turn, patience := a.turn, a.Patience.Approver
	wanted, leave := context.WithCancel(context.Background())
	a.calling = approverCall{question: q.ID, leave: leave}
	a.ctx.Detach(func(ctx context.Context) any {
		defer context.AfterFunc(ctx, leave)()
		said := approverSaid{question: shown.ID, failed: "it ended its goroutine"}
		defer func() {
			if reason := recover(); reason != nil {
				said.failed = fmt.Sprintf("it panicked: %v", reason)
			}
			leave()
			sys.Send(self, said)
		}()
		if !takeTurn(wanted, turn, patience) {
			said.failed = errApproverHangs
			return nil
		}
		defer func() { <-turn }()
		decision, err := approver(wanted, shown)
		said.decision, said.failed = decision, ""
		if err != nil {
			said.failed = err.Error()
		}
		return nil
	})
}

// takeTurn waits until the approver can be called. It can be busy only if the actor that called it has crashed.
func takeTurn(ctx context.Context, turn chan struct{}, patience time.Duration) bool {
	select {
	case turn <- struct{}{}:
		return true
	case <-time.After(patience):
		return false
	case <-ctx.Done():
		return false
	}
}

// leaveApprover tells the approver that its answer to a question is no longer wanted.
func (a *approval) leaveApprover(q *question) {
	if q.called && a.calling.question == q.ID && a.calling.overdue == nil {
		a.calling.leave()
		a.calling.overdue = a.ctx.After(a.Patience.Approver, approverOverdue{q.ID})
	}
}

// approverOverdue goes on without an approver that does not return.
func (a *approval) approverOverdue(id messages.QuestionID) {
	if a.calling.question == id {
		a.calling.hangs = true
		a.Logger.Warn("the approver does not return", "question", string(id))
		a.refuseUnheard()
		a.next()
	}
}

// approverSaid takes an approver's answer. If the approver has none, a subscriber may still answer.
func (a *approval) approverSaid(m approverSaid) {
	if a.calling.question == m.question {
		a.calling.overdue.Cancel()
		a.calling = approverCall{}
	}
	if q := a.open(m.question); q != nil {
		a.takeAnswer(q, m)
	}
	a.next()
}

func (a *approval) takeAnswer(q *question, m approverSaid) {
	if m.failed == "" {
		if err := q.check(m.decision); err != nil {
			m.failed = err.Error()
		}
	}
	if m.failed == "" {
		a.resolve(q, m.decision, messages.DecidedByPerson)
		return
	}
	a.Logger.Warn("the approver did not answer", "question", string(m.question), "reason", m.failed)
	q.failed = m.failed
	a.refuseUnheard()
}

// audience reports whether anybody can answer a question; failed says why the approver will not.
func (a *approval) audience(from messages.Origin, failed string) bool {
	return a.approver != nil && failed == "" && !a.calling.hangs || a.Bus.Listening(messages.KindApprovalRequested, from)
}

// refuseUnheard ends the questions that nobody can answer any more.
func (a *approval) refuseUnheard() {
	for _, q := range slices.Clone(a.queue) {
		if q.closed || q.ID == "" || a.audience(q.first().Origin, q.failed) {
			continue
		}
		failed := q.failed
		if failed == "" && a.calling.hangs {
			failed = errApproverHangs
		}
		a.finish(q, protocol.Verdict{Plan: q.first().Plan, Source: messages.DecidedByAbsence, Refusal: nobody(failed)})
	}
}
