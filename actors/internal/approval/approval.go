package approval

import (
	"reflect"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/internal/label"
	"github.com/execbus/execbus/messages"
)

const (
	// MaxQuestions bounds the questions of a session that wait for an answer.
	MaxQuestions = 256
	// maxNumbers is how many questions an approval actor numbers before the numbers of its successor begin.
	maxNumbers = 1_000_000_000
	// lookForListeners is how often the actor checks that somebody is still there to answer.
	lookForListeners = 250 * time.Millisecond
)

// Config is what the approval actor of a session is given.
type Config struct {
	*shared.Session
	Rulebook   *system.PID
	Rules      protocol.NewRules // the newest
	Approver   shared.Approver   // nil: only subscribers and callers answer
	Busy       chan struct{}     // holds a token while the approver is called, perhaps by an earlier approval actor
	Deadline   time.Duration     // of a question; zero for none
	OnDeadline messages.DecisionKind
	// Earlier is how many approval actors the session has had.
	Earlier int
}

// Spawn starts the approval actor of a session, as its child.
func Spawn(ctx *system.Context, c Config) *system.PID {
	if c.OnDeadline == "" || c.OnDeadline == messages.DecisionDenied {
		c.OnDeadline = messages.DecisionTimedOut
	}
	a := &approval{Config: c, session: ctx.Self(), last: c.Earlier * maxNumbers}
	return ctx.Spawn("approval", a.receive)
}

type approval struct {
	Config
	ctx     *system.Context
	session *system.PID

	queue   []*question // in the order in which they are put
	making  *question   // whose plan is being made; nil if none is
	last    int         // number of the newest question
	grants  grants
	calling approverCall
	look    *system.Timer // for listeners
}

func (a *approval) receive(ctx *system.Context) {
	a.ctx = ctx
	switch m := ctx.Message().(type) {
	case system.Started:
		a.ctx.Watch(a.Rulebook)
	case system.Stopping:
		a.leave()
	case system.Crashing:
		a.leave()
		if c, lost := m.Message.(protocol.Consult); lost {
			c.Discard()
		}
	case system.Terminated:
		a.rulebookGone()
	case protocol.Consult:
		a.consulted(m)
	case protocol.Withdraw:
		a.withdraw(m)
	case messages.Decide:
		a.ctx.Respond(protocol.Outcome("decide", a.decide(m)))
	case protocol.ListQuestions:
		a.ctx.Respond(a.list())
	case protocol.ListGrants:
		a.ctx.Respond(a.grants.list())
	case messages.RevokeGrant:
		err := a.grants.revoke(m.Grant)
		a.share() // before the answer
		a.ctx.Respond(protocol.Outcome("revoke", err))
	case protocol.ForgetProcess:
		a.grants.forgetProcess(m.Process)
		a.share()
	case approverSaid:
		a.approverSaid(m)
	case approverReturned:
		a.calling = approverCall{}
		a.next()
	case questionDue:
		if q := a.open(m.question); q != nil {
			a.resolve(q, messages.Decision{Kind: a.OnDeadline}, messages.DecidedByDeadline)
		}
	case listening:
		a.look = nil
		a.refuseUnheard()
		a.next()
	case grantDue:
		a.grants.expire(m.grant)
		a.share()
	case replanned:
		a.replanned(m)
	case protocol.NewRules:
		a.learn(m)
		a.next()
	case protocol.Amended:
		a.amended(m)
	case system.Unanswered:
		if lost, ok := m.Message.(protocol.Amend); ok {
			a.amended(protocol.Amended{Amend: lost, NewRules: a.Rules, Err: m.Err})
		}
	default:
		ctx.Unexpected()
	}
}

// tell gives a verdict to the actor that asked for it. It is the last message about this consult.
func (a *approval) tell(c protocol.Consult, v protocol.Verdict) {
	v.Process = c.Process
	c.Latch.Open()
	if c.Asker != nil {
		c.Asker.Answer(v)
		return
	}
	a.ctx.Send(a.session, v)
}

// equal finds a question whose answer also answers c. A listener that watches one call only would not see the question
// of another. Patches with one key may write different things.
func (a *approval) equal(c protocol.Consult) *question {
	if c.Request.Patch != nil {
		return nil
	}
	for _, q := range a.queue {
		first := q.first()
		if c.Plan.CacheKey != "" && !q.closed && q.ID != "" && c.Plan.CacheKey == first.Plan.CacheKey && c.Plan.FirstAttempt == first.Plan.FirstAttempt &&
			(c.Denial == nil) == (first.Denial == nil) && c.Snapshot.Approval == first.Snapshot.Approval &&
			reflect.DeepEqual(c.Snapshot.Sandbox, first.Snapshot.Sandbox) && a.audience(messages.Origin{Session: a.SessionID}, q.failed) {
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
	if a.Deadline > 0 {
		q.Deadline, q.OnDeadline = time.Now().Add(a.Deadline), a.OnDeadline
		q.due = a.ctx.After(a.Deadline, questionDue{q.ID})
	}
	if until := q.first().Until; !until.IsZero() && (q.Deadline.IsZero() || until.Before(q.Deadline)) {
		q.Deadline, q.OnDeadline = until, messages.DecisionTimedOut
	}
	a.Bus.Publish(messages.ApprovalRequested{Origin: q.from(), Question: q.Question})
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
	v := protocol.Verdict{Plan: q.first().Plan, Decision: d.Kind, Source: source}
	if !d.Kind.Approves() {
		v.Refusal = refusalOf(d)
	}
	switch d.Kind {
	case messages.DecisionApproved:
		if q.Host != nil {
			a.grants.add(a.ctx, q, false, 0)
		}
	case messages.DecisionApprovedForSession:
		a.grants.add(a.ctx, q, true, d.Expires)
	case messages.DecisionApprovedWithRule:
		q.closed, q.verdict = true, v
		a.stop(q)
		a.ctx.Request(a.Rulebook, q.amend(d))
		return
	}
	a.share() // before the verdict
	a.finish(q, v)
	if d.Kind == messages.DecisionAborted {
		if process := inquirer(q.first()); process != 0 {
			a.ctx.Send(a.session, messages.Terminate{Process: process})
		}
		a.abort(q, source)
	}
	a.next()
}

// amended goes on with a command whose rule was made. If making it failed, the command runs this once.
func (a *approval) amended(m protocol.Amended) {
	a.learn(m.NewRules)
	at := slices.IndexFunc(a.queue, func(q *question) bool { return q.ID == m.Question })
	if at < 0 {
		return
	}
	q := a.queue[at]
	if m.Err != nil {
		a.Logger.Warn("a rule could not be remembered", "reason", m.Err.Error())
		a.Bus.Publish(messages.ExecNotice{Origin: q.from(), Text: "the approved rule could not be remembered, so it counts for this command only: " + m.Err.Error()})
		if q.Host != nil {
			a.grants.add(a.ctx, q, false, 0)
			a.share()
		}
	}
	a.finish(q, q.verdict)
	a.next()
}

var errNoRulebook = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "amend", Detail: "the rules cannot be changed after a crash; restart the host"}

// rulebookGone goes on without the rules that were to be made.
func (a *approval) rulebookGone() {
	for _, q := range slices.Clone(a.queue) {
		if q.closed {
			a.amended(protocol.Amended{Amend: protocol.Amend{Question: q.ID}, NewRules: a.Rules, Err: errNoRulebook})
		}
	}
}

// learn takes rules unless it has newer ones.
func (a *approval) learn(m protocol.NewRules) {
	if m.Version > a.Rules.Version {
		a.Rules = m
	}
}

// withdraw removes one asker, and the question if nobody else asked it. The verdict says that no other message follows.
func (a *approval) withdraw(m protocol.Withdraw) {
	for _, q := range slices.Clone(a.queue) {
		at := slices.IndexFunc(q.consults, func(c protocol.Consult) bool { return c.Process == m.Process && c.Asker == m.Asker })
		if at < 0 {
			continue
		}
		c := q.consults[at]
		if len(q.consults) == 1 {
			a.forget(q)
		} else {
			q.consults = slices.Delete(q.consults, at, at+1)
		}
		a.tell(c, protocol.Verdict{})
	}
	a.next()
}

// forget ends a question that no process waits for any more. A rule that is being made is still made.
func (a *approval) forget(q *question) {
	a.take(q)
	if q.closed {
		a.resolved(q, q.verdict)
	} else {
		a.resolved(q, protocol.Verdict{})
	}
}

// finish ends a question that has an answer: it tells everyone, and answers the askers.
func (a *approval) finish(q *question, v protocol.Verdict) {
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
func (a *approval) resolved(q *question, v protocol.Verdict) {
	if !q.put {
		return
	}
	resolved := messages.ApprovalResolved{Origin: q.from(), Question: q.ID, Decision: v.Decision, Source: v.Source}
	if q.Host != nil {
		resolved.Host = q.Host.String()
	}
	if q.Execution != nil {
		resolved.Execution = label.Clip(q.Display)
	}
	if resolved.Decision == "" && v.Source != "" { // the plan's own answer
		resolved.Decision = messages.DecisionDenied
		if v.Refusal == nil {
			resolved.Decision = messages.DecisionApproved
		}
	}
	a.Bus.Publish(resolved)
}

// leave answers everyone when the actor itself ends.
func (a *approval) leave() {
	a.ctx.Unwatch(a.Rulebook)
	refusal := shared.Rejected("its session has ended, or nobody is left to ask")
	for _, q := range slices.Clone(a.queue) {
		v := protocol.Verdict{Plan: q.first().Plan, Source: messages.DecidedByAbsence, Refusal: refusal}
		if q.closed {
			v.Decision, v.Source = q.verdict.Decision, q.verdict.Source
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

// inquires reports whether a running command asks.
func inquires(c protocol.Consult) bool { return c.Request.Host != nil || c.Request.Execution != nil }

// inquirer is the running command that asks; zero if none does, or if it is not known.
func inquirer(c protocol.Consult) messages.ProcessID {
	switch {
	case c.Request.Host != nil:
		return c.Request.Host.Runs
	case c.Request.Execution != nil:
		return c.Request.Execution.Process
	}
	return 0
}

// abort rejects the open questions of all owners of a question that a person answered with abort, and the further inquiries of the
// process that this ends, and tells the session.
func (a *approval) abort(aborted *question, source messages.DecisionSource) {
	var owners []string
	for _, c := range aborted.consults {
		if c.Owner != "" && !slices.Contains(owners, c.Owner) {
			owners = append(owners, c.Owner)
		}
	}
	d := messages.Decision{Kind: messages.DecisionAborted}
	for _, q := range slices.Clone(a.queue) {
		if q.closed {
			continue
		}
		kept, v := q.consults[:0:0], protocol.Verdict{Plan: q.first().Plan, Decision: d.Kind, Source: source, Refusal: refusalOf(d)}
		var gone []protocol.Consult
		for _, c := range q.consults {
			if slices.Contains(owners, c.Owner) || inquires(aborted.first()) && inquires(c) && c.Process != 0 && c.Process == aborted.first().Process {
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
		a.ctx.Send(a.session, protocol.OwnerAborted{Owner: owner})
	}
}
