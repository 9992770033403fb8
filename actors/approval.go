package actors

import (
	"reflect"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// Bounds of the questions of a session.
const (
	maxQuestions = 256
	// maxQuestionNumbers is how many questions an approval actor numbers before the numbers of its successor begin.
	maxQuestionNumbers = 1_000_000_000
	// lookForListeners is how often the actor checks that somebody is still there to answer.
	lookForListeners = 250 * time.Millisecond
)

// approval is the actor that puts the questions of one session to a person, one at a time, and remembers the answers. Its
// supervisor brings consults and takes verdicts.
type approval struct {
	*surroundings
	ctx        *system.Context
	supervisor *system.PID
	keeper     *system.PID // of the rules
	approver   Approver
	turn       chan struct{}         // holds a token while the approver is called, perhaps by an earlier approval actor
	deadline   time.Duration         // a question's; zero for none
	otherwise  messages.DecisionKind // the decision when it has passed

	rules   newRules    // the newest
	queue   []*question // in the order in which they are put
	making  *question   // whose plan is being made; nil if none is
	last    int         // number of the newest question
	grants  grants
	calling approverCall
	look    *system.Timer // for listeners
}

func (a *approval) receive(ctx *system.Context) {
	a.ctx = ctx
	a.handle(ctx.Message())
}

func (a *approval) handle(message any) {
	switch m := message.(type) {
	case system.Started:
		a.ctx.Watch(a.keeper)
	case system.Stopping:
		a.leave()
	case system.Crashing:
		a.leave()
		if c, lost := m.Message.(consult); lost {
			c.Discard()
		}
	case system.Terminated:
		a.keeperGone()
	case consult:
		a.consulted(m)
	case withdraw:
		a.withdraw(m.id)
	case messages.Decide:
		a.ctx.Respond(outcome("decide", a.decide(m)))
	case ListQuestions:
		a.ctx.Respond(a.list())
	case ListGrants:
		a.ctx.Respond(a.grants.list())
	case messages.RevokeGrant:
		a.ctx.Respond(outcome("revoke", a.grants.revoke(m.Grant)))
	default:
		a.internal(m)
	}
}

// internal handles messages from timers, work, the approver and the keeper of the rules.
func (a *approval) internal(message any) {
	switch m := message.(type) {
	case approverSaid:
		a.approverSaid(m)
	case approverOverdue:
		a.approverOverdue(m.question)
	case questionDue:
		if q := a.open(m.question); q != nil {
			a.resolve(q, messages.Decision{Kind: a.otherwise}, messages.DecidedByDeadline)
		}
	case listening:
		a.look = nil
		a.refuseUnheard()
		a.next()
	case grantDue:
		a.grants.expire(m.grant)
	case replanned:
		a.replanned(m)
	case newRules:
		a.learn(m)
		a.next()
	case amended:
		a.amended(m)
	case system.Unanswered:
		if lost, ok := m.Message.(amend); ok {
			a.amended(amended{amend: lost, newRules: a.rules, err: m.Err})
		}
	}
}

// tell gives a verdict to the actor that asked for it. It is the last message about this consult.
func (a *approval) tell(c consult, v verdict) {
	v.id = c.id
	c.silence.begin()
	a.ctx.Send(a.supervisor, v)
}

// equal finds a question whose answer also answers c. A listener that watches one call only would not see the question
// of another.
func (a *approval) equal(c consult) *question {
	for _, q := range a.queue {
		first := q.first()
		if c.plan.CacheKey != "" && !q.closed && q.ID != "" && c.plan.CacheKey == first.plan.CacheKey && c.plan.FirstAttempt == first.plan.FirstAttempt &&
			(c.denial == nil) == (first.denial == nil) && c.snapshot.Approval == first.snapshot.Approval &&
			reflect.DeepEqual(c.snapshot.Sandbox, first.snapshot.Sandbox) && a.audience(messages.Origin{Session: a.session}, q.failed) {
			return q
		}
	}
	return nil
}

// next puts the first question, unless it has been put already, or its plan has to be made first.
func (a *approval) next() {
	a.replan()
	if len(a.queue) == 0 {
		a.look.Cancel()
		a.look = nil
		return
	}
	if a.look == nil {
		a.look = a.ctx.After(lookForListeners, listening{})
	}
	q := a.queue[0]
	if !q.put && !q.closed && q.planned == a.version() {
		a.put(q)
	}
	if q.put {
		a.callApprover(q)
	}
}

// put shows a question to everyone who may answer it.
func (a *approval) put(q *question) {
	q.put = true
	if a.deadline > 0 {
		q.Deadline, q.OnDeadline = time.Now().Add(a.deadline), a.otherwise
		q.due = a.ctx.After(a.deadline, questionDue{q.ID})
	}
	a.bus.Publish(messages.ApprovalRequested{Origin: q.from(), Question: q.Question})
}

// decide answers a question on behalf of a caller.
func (a *approval) decide(m messages.Decide) error {
	q := a.open(m.Question)
	if q == nil {
		return a.closedError(m.Question)
	}
	if err := q.check(m.Decision); err != nil {
		return err
	}
	a.resolve(q, m.Decision, messages.DecidedByPerson)
	return nil
}

// resolve acts on an answer. A rule is made first, so that it holds for the command and all later ones.
func (a *approval) resolve(q *question, d messages.Decision, source messages.DecisionSource) {
	if a.open(q.ID) == nil {
		return
	}
	v := verdict{plan: q.first().plan, decision: d.Kind, source: source}
	if !d.Kind.Approves() {
		v.refusal = refusalOf(d)
	}
	switch d.Kind {
	case messages.DecisionApprovedForSession:
		a.grants.add(a.ctx, q, d.Expires)
	case messages.DecisionApprovedWithRule:
		q.closed, q.verdict = true, v
		a.stop(q)
		prefix := d.Amendment
		if len(prefix) == 0 {
			prefix = q.Amendment
		}
		a.ctx.Request(a.keeper, amend{q.ID, slices.Clone(prefix)})
		return
	}
	a.finish(q, v)
	if d.Kind == messages.DecisionAborted {
		a.abort(q, source)
	}
	a.next()
}

// amended goes on with a command whose rule was made. If making it failed, the command runs this once.
func (a *approval) amended(m amended) {
	a.learn(m.newRules)
	at := slices.IndexFunc(a.queue, func(q *question) bool { return q.ID == m.question })
	if at < 0 {
		return
	}
	q := a.queue[at]
	if m.err != nil {
		a.logger.Warn("a rule could not be remembered", "reason", m.err.Error())
		a.bus.Publish(messages.ExecNotice{Origin: q.from(),
			Text: "the approved rule could not be remembered, so the command runs this once only: " + m.err.Error()})
	}
	a.finish(q, q.verdict)
	a.next()
}

var errNoKeeper = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "amend", Detail: "the rules cannot be changed after a crash; restart the host"}

// keeperGone goes on without the rules that were to be made.
func (a *approval) keeperGone() {
	for _, q := range slices.Clone(a.queue) {
		if q.closed {
			a.amended(amended{amend: amend{question: q.ID}, newRules: a.rules, err: errNoKeeper})
		}
	}
}

// learn takes rules unless it has newer ones.
func (a *approval) learn(m newRules) {
	if m.version > a.rules.version {
		a.rules = m
	}
}

// withdraw removes one asker, and the question if nobody else asked it. The verdict says that no other message follows.
func (a *approval) withdraw(id messages.ProcessID) {
	for _, q := range slices.Clone(a.queue) {
		at := slices.IndexFunc(q.consults, func(c consult) bool { return c.id == id })
		if at < 0 {
			continue
		}
		c := q.consults[at]
		if len(q.consults) == 1 {
			a.forget(q)
		} else {
			q.consults = slices.Delete(q.consults, at, at+1)
		}
		a.tell(c, verdict{})
	}
	a.next()
}

// forget ends a question that no process waits for any more. A rule that is being made is still made.
func (a *approval) forget(q *question) {
	a.take(q)
	if q.closed {
		a.resolved(q, q.verdict)
	} else {
		a.resolved(q, verdict{})
	}
}

// finish ends a question that has an answer: it tells everyone, and answers the askers.
func (a *approval) finish(q *question, v verdict) {
	a.take(q)
	a.resolved(q, v)
	for _, c := range q.consults {
		a.tell(c, v)
	}
}

// take takes a question out of the queue.
func (a *approval) take(q *question) {
	a.queue = slices.DeleteFunc(a.queue, func(other *question) bool { return other == q })
	a.stop(q)
}

// resolved tells everyone who has seen a question that it is over.
func (a *approval) resolved(q *question, v verdict) {
	if !q.put {
		return
	}
	resolved := messages.ApprovalResolved{Origin: q.from(), Question: q.ID, Decision: v.decision, Source: v.source}
	if resolved.Decision == "" && v.source != "" { // the plan's own answer
		resolved.Decision = messages.DecisionDenied
		if v.refusal == nil {
			resolved.Decision = messages.DecisionApproved
		}
	}
	a.bus.Publish(resolved)
}

// leave answers everyone when the actor itself ends.
func (a *approval) leave() {
	a.ctx.Unwatch(a.keeper)
	refusal := rejected("its session has ended, or nobody is left to ask")
	for _, q := range slices.Clone(a.queue) {
		v := verdict{plan: q.first().plan, source: messages.DecidedByAbsence, refusal: refusal}
		if q.closed {
			v.decision, v.source = q.verdict.decision, q.verdict.source
		}
		a.finish(q, v)
	}
}

// open finds a question that can still be answered.
func (a *approval) open(id messages.QuestionID) *question {
	for _, q := range a.queue {
		if q.ID == id && id != "" && !q.closed {
			return q
		}
	}
	return nil
}

// list is the list of questions that can be answered; the first is the one that is put.
func (a *approval) list() messages.Questions {
	all := messages.Questions{}
	for _, q := range a.queue {
		if !q.closed && q.ID != "" {
			all = append(all, q.Question)
		}
	}
	return all
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
