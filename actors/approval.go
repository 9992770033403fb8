package actors

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
)

// Bounds of the questions of a session.
const (
	maxQuestions = 256
	// lookForListeners is how often it is seen to that somebody is still there to answer.
	lookForListeners = 250 * time.Millisecond
)

// approval is the actor that puts the questions of one session to a person, one at a time, and remembers the answers.
type approval struct {
	*surroundings
	ctx        *kernel.Context
	supervisor *kernel.PID
	keeper     *kernel.PID // of the rules
	approver   Approver
	patience   time.Duration         // a question's deadline; zero for none
	otherwise  messages.DecisionKind // what holds when it is over

	rules  newRules    // the newest
	queue  []*question // the first is the one that is put
	last   int         // number of the newest question
	grants grants
	held   bool          // the supervisor holds the deadlines of calls
	look   *kernel.Timer // for listeners
}

// Messages to the approval actor.
type (
	// consult asks about one attempt of a process, which is its sender. It is answered with a verdict.
	consult struct {
		request  policy.Request
		snapshot policy.Snapshot // with the policies; rules and grants are the approval actor's own
		plan     policy.Plan
		denial   *messages.Denial // of the first attempt, when this is about another
		origin   messages.Origin
	}
	// withdraw says that a process does not want to know any more.
	withdraw    struct{ asker *kernel.PID }
	questionDue struct{ question *question }
	listening   struct{}
)

// verdict answers a consult.
type verdict struct {
	plan     policy.Plan // as it is now
	decision messages.DecisionKind
	source   messages.DecisionSource
	refusal  *messages.Error // nil: allowed
}

// asking tells the supervisor that the deadlines of its calls are to be held, or not any more.
type asking struct{ open bool }

func (a *approval) receive(ctx *kernel.Context) {
	a.ctx = ctx
	crashed := true
	defer func() {
		if crashed { // there will be no Stopping
			a.leave()
		}
	}()
	a.handle(ctx.Message())
	crashed = false
}

func (a *approval) handle(message any) {
	switch m := message.(type) {
	case kernel.Started:
		a.ctx.Watch(a.keeper)
	case kernel.Stopping:
		a.leave()
	case kernel.Terminated:
		a.gone(m.PID)
	case consult:
		a.consulted(m)
	case withdraw:
		a.withdraw(m.asker)
	case messages.Decide:
		a.ctx.Respond(outcome("decide", a.decide(m)))
	case messages.ListQuestions:
		a.ctx.Respond(a.list())
	case messages.ListGrants:
		a.ctx.Respond(a.grants.list())
	case messages.RevokeGrant:
		a.ctx.Respond(outcome("revoke", a.grants.revoke(m.Grant)))
	case approverSaid:
		a.approverSaid(m)
	case questionDue:
		a.resolve(m.question, messages.Decision{Kind: a.otherwise}, messages.ByDeadline)
	case listening:
		a.look = nil
		a.refuseUnheard()
		a.next()
	case grantDue:
		a.grants.forget(m.grant)
	case newRules:
		a.learn(m)
		a.review()
	case amended:
		a.amended(m)
	case kernel.Unanswered:
		if lost, ok := m.Message.(amend); ok {
			a.amended(amended{amend: lost, newRules: a.rules, err: m.Err})
		}
	}
}

// consulted answers at once where that can be done, and queues a question otherwise.
func (a *approval) consulted(c consult) {
	asker := a.ctx.Sender()
	plan := a.plan(c)
	if v, decided := verdictOf(c, plan); decided {
		a.ctx.Respond(v)
		return
	}
	c.plan = plan
	if !a.audience(c.origin, "") {
		a.ctx.Respond(verdict{plan: plan, source: messages.ByAbsence, refusal: nobody("")})
		return
	}
	if q := a.equal(c); q != nil {
		q.askers = append(q.askers, asker)
	} else if len(a.queue) < maxQuestions {
		a.last++
		q := &question{Question: a.ask(c), consult: c, askers: []*kernel.PID{asker}}
		q.ID = questionID(a.last)
		a.queue = append(a.queue, q)
	} else {
		a.ctx.Respond(verdict{plan: plan, source: messages.ByPolicy, refusal: &messages.Error{Code: messages.CodeLimitReached, Op: "exec",
			Detail: fmt.Sprintf("%d questions wait for an answer already", maxQuestions), Hint: "answer them first"}})
		return
	}
	a.ctx.Watch(asker) // it may crash
	a.next()
}

// plan is what holds for a command now, with the rules and grants that came since it was asked about.
func (a *approval) plan(c consult) policy.Plan {
	c.snapshot.Rules, c.snapshot.Granted = a.rules.rules, a.grants.has
	return a.makePlan(c.request, c.snapshot)
}

// equal finds a question whose answer is an answer to c, too. Who listens to one call only would not be asked about another.
func (a *approval) equal(c consult) *question {
	for _, q := range a.queue {
		first := q.consult
		if c.plan.CacheKey != "" && !q.closed && c.plan.CacheKey == first.plan.CacheKey && c.plan.FirstAttempt == first.plan.FirstAttempt &&
			(c.denial == nil) == (first.denial == nil) && c.snapshot.Approval == first.snapshot.Approval &&
			reflect.DeepEqual(c.snapshot.Sandbox, first.snapshot.Sandbox) && a.audience(messages.Origin{Session: a.session}, q.failed) {
			return q
		}
	}
	return nil
}

// next puts the first question, if that has not been done, and lets go of the calls' deadlines when there is none.
func (a *approval) next() {
	if open := len(a.queue) > 0; open != a.held {
		a.held = open
		a.ctx.Send(a.supervisor, asking{open})
	}
	if len(a.queue) == 0 {
		a.look.Cancel()
		a.look = nil
		return
	}
	if a.look == nil {
		a.look = a.ctx.After(lookForListeners, listening{})
	}
	if q := a.queue[0]; !q.put && !q.closed {
		a.put(q)
	}
}

// put shows a question to everyone who may answer it.
func (a *approval) put(q *question) {
	q.put = true
	if a.patience > 0 {
		q.Deadline, q.OnDeadline = time.Now().Add(a.patience), a.otherwise
		q.due = a.ctx.After(a.patience, questionDue{q})
	}
	a.bus.Publish(messages.ApprovalRequested{Origin: a.from(q), Question: q.Question})
	if a.approver != nil {
		a.call(q)
	}
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
	a.resolve(q, m.Decision, messages.ByPerson)
	return nil
}

// resolve acts on an answer. A rule is made first, so that the command and all that come after it find it.
func (a *approval) resolve(q *question, d messages.Decision, source messages.DecisionSource) {
	if a.open(q.ID) == nil {
		return
	}
	v := verdict{plan: q.consult.plan, decision: d.Kind, source: source}
	if !d.Kind.Approves() {
		v.refusal = refusalOf(d)
	}
	switch d.Kind {
	case messages.ApprovedForSession:
		a.grants.add(a.ctx, q, d.Expires)
	case messages.ApprovedWithRule:
		q.closed, q.verdict = true, v
		q.stop()
		prefix := d.Amendment
		if len(prefix) == 0 {
			prefix = q.Amendment
		}
		a.ctx.Request(a.keeper, amend{q.ID, slices.Clone(prefix)})
		return
	}
	a.finish(q, v)
	a.review()
}

// amended goes on with a command whose rule was made. If it could not be, the command runs this once.
func (a *approval) amended(m amended) {
	a.learn(m.newRules)
	at := slices.IndexFunc(a.queue, func(q *question) bool { return q.ID == m.question })
	if at < 0 {
		return
	}
	q := a.queue[at]
	if m.err != nil {
		a.logger.Warn("a rule could not be remembered", "reason", m.err.Error())
		a.bus.Publish(messages.ExecNotice{Origin: a.from(q),
			Text: "the approved rule could not be remembered, so the command runs this once only: " + m.err.Error()})
	}
	a.finish(q, q.verdict)
	a.review()
}

// gone notes the end of a process that has asked, or of the keeper of the rules.
func (a *approval) gone(pid *kernel.PID) {
	if !pid.Equal(a.keeper) {
		a.withdraw(pid)
		return
	}
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

// review plans the questions that wait again: what was just decided may answer them.
func (a *approval) review() {
	for _, q := range slices.Clone(a.queue) {
		if q.closed {
			continue
		}
		if v, decided := verdictOf(q.consult, a.plan(q.consult)); decided {
			a.finish(q, v)
		}
	}
	a.next()
}

// withdraw forgets one who asked, and the question if nobody else did.
func (a *approval) withdraw(asker *kernel.PID) {
	for _, q := range slices.Clone(a.queue) {
		q.askers = slices.DeleteFunc(q.askers, func(other *kernel.PID) bool { return other.Equal(asker) })
		if len(q.askers) == 0 && !q.closed {
			a.finish(q, verdict{})
		}
	}
	a.next()
}

// finish is the one place where a question ends: it takes it out of the queue, tells everyone, and answers who asked.
func (a *approval) finish(q *question, v verdict) {
	a.queue = slices.DeleteFunc(a.queue, func(other *question) bool { return other == q })
	q.stop()
	if q.put {
		resolved := messages.ApprovalResolved{Origin: a.from(q), Question: q.ID, Decision: v.decision, Source: v.source}
		if resolved.Decision == "" && v.source != "" { // the plan's own answer
			resolved.Decision = messages.Denied
			if v.refusal == nil {
				resolved.Decision = messages.Approved
			}
		}
		a.bus.Publish(resolved)
	}
	for _, asker := range q.askers {
		a.ctx.Send(asker, v)
	}
}

// leave is the actor's own end.
func (a *approval) leave() {
	a.ctx.Unwatch(a.keeper)
	refusal := rejected("its session has ended, or nobody can be asked any more")
	for _, q := range slices.Clone(a.queue) {
		if q.closed {
			a.finish(q, verdict{plan: q.consult.plan, decision: q.verdict.decision, source: q.verdict.source, refusal: refusal})
		} else {
			a.finish(q, verdict{plan: q.consult.plan, source: messages.ByAbsence, refusal: refusal})
		}
	}
	if a.held {
		a.held = false
		a.ctx.Send(a.supervisor, asking{})
	}
}

func (a *approval) from(q *question) messages.Origin {
	origin := q.consult.origin
	origin.At = time.Now()
	return origin
}

// open finds a question that can still be answered.
func (a *approval) open(id messages.QuestionID) *question {
	for _, q := range a.queue {
		if q.ID == id && !q.closed {
			return q
		}
	}
	return nil
}

// list is the questions that can be answered; the first is the one that is put.
func (a *approval) list() messages.Questions {
	all := messages.Questions{}
	for _, q := range a.queue {
		if !q.closed {
			all = append(all, q.Question)
		}
	}
	return all
}
