package approval

import (
	"context"
	"fmt"
	"slices"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
)

// Only the approval actor has the newest rules and grants, so it makes the plan for each question again before it puts it, and when
// they have changed. Plans are made in a goroutine, one at a time, because the plan for a long script takes a while.

// replanned is the plan for a question, made with the rules and grants of a version.
type replanned struct {
	question *question
	version  uint64
	plan     policy.Plan
}

// version grows with every change of the rules and grants. It is not zero.
func (a *approval) version() uint64 { return 1 + a.Rules.Version + a.grants.changes }

// consulted queues a question.
func (a *approval) consulted(c protocol.Consult) {
	a.queue = append(a.queue, &question{consults: []protocol.Consult{c}})
	a.next()
}

// replan makes the first plan that is missing or older than the rules and grants, unless one is being made.
func (a *approval) replan() {
	at := slices.IndexFunc(a.queue, func(q *question) bool { return !q.closed && q.planned != a.version() })
	if a.making != nil || at < 0 {
		return
	}
	q := a.queue[at]
	a.making = q
	c, makePlan, version := q.first(), a.MakePlan, a.version() // the goroutine must not touch the actor
	c.Snapshot.Rules, c.Snapshot.Granted = a.Rules.Rules, a.grants.has()
	a.ctx.Go(func(context.Context) any { return replanned{q, version, makePlan(c.Request, c.Snapshot)} })
}

// replanned takes a plan, and begins the next. A plan for older rules and grants is made again.
func (a *approval) replanned(m replanned) {
	a.making = nil
	if m.version == a.version() && slices.Contains(a.queue, m.question) && !m.question.closed {
		a.planned(m.question, m)
	}
	a.next()
}

// planned answers a question if its plan or an earlier question does. Otherwise somebody has to be asked.
func (a *approval) planned(q *question, m replanned) {
	q.planned = m.version
	c := q.first()
	if q.ID == "" {
		q.consults[0].Plan, c.Plan = m.plan, m.plan
	}
	v, decided := verdictOf(c, m.plan)
	switch {
	case decided:
	case q.ID != "":
		return
	case !a.audience(c.Origin, "") && c.Plan.Unasked == policy.Run && c.Denial == nil: // nobody has agreed to do without the sandbox
		c.Plan.Decision = policy.Run
		v = protocol.Verdict{Plan: c.Plan, Source: messages.DecidedByAbsence}
	case !a.audience(c.Origin, ""):
		v = protocol.Verdict{Plan: c.Plan, Source: messages.DecidedByAbsence, Refusal: nobody(c, "")}
	case a.equal(c) != nil:
		other := a.equal(c)
		other.consults = append(other.consults, c)
		a.take(q)
		return
	case a.waiting() >= MaxQuestions:
		v = protocol.Verdict{Plan: c.Plan, Source: messages.DecidedByPolicy, Refusal: &messages.Error{Code: messages.ErrLimitReached, Op: "exec",
			Detail: fmt.Sprintf("%d questions wait for an answer already; answer them first", MaxQuestions)}}
	default:
		a.last++
		q.Question = a.ask(c)
		q.ID = questionID(a.last)
		return
	}
	a.finish(q, v)
}

// waiting is how many questions wait for an answer.
func (a *approval) waiting() (n int) {
	for _, q := range a.queue {
		if q.ID != "" {
			n++
		}
	}
	return n
}
