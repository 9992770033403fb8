package approval

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
)

// approverCall is the one call of the approver that is under way. The approver is asked one question at a time, and no
// other before it has returned.
type approverCall struct {
	question messages.QuestionID // empty: none is under way
	leave    context.CancelFunc  // says that the answer is not wanted any more
	hangs    bool                // it did not return in time after that
}

// errApproverHangs is why a question cannot be put to the approver.
var errApproverHangs = errors.New("it has not returned from an earlier question")

// callApprover asks the host's approver. Nothing waits for it.
func (a *approval) callApprover(q *question) {
	if a.Approver == nil || a.calling.question != "" || q.called || q.closed {
		return
	}
	q.called = true
	self, sys, approver, busy, shown, patience := a.ctx.Self(), a.ctx.System(), a.Approver, a.Busy, q.Question, a.Patience.Approver // the goroutine must not touch the actor
	wanted, leave := context.WithCancel(context.Background())
	a.calling = approverCall{question: q.ID, leave: leave}
	hostcode.Call[messages.Decision]{Patience: patience, Do: func(ctx context.Context) (none messages.Decision, _ error) {
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
			return approver(ctx, shown)
		case <-time.After(patience): // the actor that called it has crashed
		case <-ctx.Done():
		}
		return none, errApproverHangs
	}, Late: func(messages.Decision, error) { sys.Send(self, approverReturned{}) },
	}.Go(wanted, func(d messages.Decision, err error) {
		leave()
		sys.Send(self, approverSaid{shown.ID, d, err})
	})
}

// leaveApprover tells the approver that its answer to a question is no longer wanted.
func (a *approval) leaveApprover(q *question) {
	if q.called && a.calling.question == q.ID {
		a.calling.leave()
	}
}

// approverSaid takes an approver's answer, or goes on without an approver that does not return. If there is no answer, a subscriber
// may still answer.
func (a *approval) approverSaid(m approverSaid) {
	failure, failed := errors.AsType[*hostcode.Failure](m.err)
	switch {
	case failed && failure.Hangs:
		a.calling.hangs = true
		a.Logger.Warn("the approver does not return", "question", string(m.question))
		a.refuseUnheard()
	default:
		a.calling = approverCall{}
		if q := a.open(m.question); q != nil {
			a.takeAnswer(q, m)
		}
	}
	a.next()
}

func (a *approval) takeAnswer(q *question, m approverSaid) {
	if m.err == nil {
		m.err = q.check(m.decision)
	}
	if m.err == nil {
		a.resolve(q, m.decision, messages.DecidedByPerson)
		return
	}
	q.failed = m.err.Error()
	a.Logger.Warn("the approver did not answer", "question", string(m.question), "reason", q.failed)
	a.refuseUnheard()
}

// audience reports whether anybody can answer a question; failed says why the approver will not.
func (a *approval) audience(from messages.Origin, failed string) bool {
	return a.Approver != nil && failed == "" && !a.calling.hangs || a.Bus.Listening(messages.KindApprovalRequested, from)
}

// refuseUnheard ends the questions that nobody can answer any more.
func (a *approval) refuseUnheard() {
	for _, q := range slices.Clone(a.queue) {
		if q.closed || q.ID == "" || a.audience(q.first().Origin, q.failed) {
			continue
		}
		failed := q.failed
		if failed == "" && a.calling.hangs {
			failed = errApproverHangs.Error()
		}
		a.finish(q, protocol.Verdict{Plan: q.first().Plan, Source: messages.DecidedByAbsence, Refusal: nobody(q.first(), failed)})
	}
}
