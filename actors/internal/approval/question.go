package approval

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
)

// question is a question that waits for an answer, with the askers that want it. Before its plan has been made with the rules and
// grants of the session it has no number, and may turn out not to be one.
type question struct {
	messages.Question
	planned  uint64             // the version of the rules and grants with which its plan was made; zero: it was not
	consults []protocol.Consult // at least one; events about the question carry the origin of the first
	put      bool               // it was published
	called   bool               // the approver was asked
	closed   bool               // it is decided, and the amendment is being made
	verdict  protocol.Verdict
	due      *system.Timer
	failed   string // why the approver will not answer
}

func (q *question) first() protocol.Consult { return q.consults[0] }

// from is the origin of its events: that of a process that has not ended.
func (q *question) from() messages.Origin {
	origin := q.first().Origin
	origin.At = time.Now()
	return origin
}

// stop ends the work on a question.
func (a *approval) stop(q *question) {
	q.due.Cancel()
	a.leaveApprover(q)
}

// check finds errors in an answer to this question.
func (q *question) check(d messages.Decision) error {
	if err := d.Check(); err != nil {
		return err
	}
	if q.Host != nil {
		return q.checkHost(d)
	}
	if q.Execution != nil && d.Kind == messages.DecisionApprovedWithRule {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "decide", Subject: "amendment",
			Detail: "a rule that allows cannot outweigh the one that asks about this execution; use another answer"}
	}
	if d.HostRule != nil {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "decide", Subject: "hostRule", Detail: "the question is about no host; leave the rule out"}
	}
	if d.Kind == messages.DecisionApprovedWithRule && len(d.Amendment)+len(q.Amendment) == 0 {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "decide", Subject: "amendment",
			Detail: "no prefix was proposed for this question; name one, or use another answer"}
	}
	return nil
}

// checkHost finds errors in an answer to a question about a host.
func (q *question) checkHost(d messages.Decision) error {
	switch {
	case d.Kind != messages.DecisionApprovedWithRule:
		return nil
	case len(d.Amendment) > 0 || q.Host.Rule == nil:
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "decide", Subject: "amendment",
			Detail: "a prefix allows no host, and a rule cannot outweigh one that asks; use another answer"}
	case d.HostRule == nil:
		return nil
	}
	return q.first().Request.Host.CheckHostRule(*d.HostRule)
}

// amend asks for the rule of an answer.
func (q *question) amend(d messages.Decision) protocol.Amend {
	m := protocol.Amend{Question: q.ID}
	switch {
	case q.Host == nil && len(d.Amendment) > 0:
		m.Prefix = slices.Clone(d.Amendment)
	case q.Host == nil:
		m.Prefix = slices.Clone(q.Amendment)
	case d.HostRule != nil:
		m.Host = d.HostRule
	default:
		m.Host = q.Host.Rule
	}
	return m
}

// verdictOf is the verdict of a plan that needs no person.
func verdictOf(c protocol.Consult, plan policy.Plan) (protocol.Verdict, bool) {
	switch {
	case plan.Decision == policy.Reject:
		return protocol.Verdict{Plan: plan, Source: plan.Source, Refusal: shared.Rejected(plan.Reason)}, true
	case c.Denial != nil && plan.OnDenial == policy.Retry: // whether the first attempt is asked about does not matter any more
		return protocol.Verdict{Plan: plan, Source: messages.DecidedByCache}, true
	case plan.Decision == policy.Run && (c.Denial == nil || plan.FirstAttempt == policy.Unsandboxed):
		return protocol.Verdict{Plan: plan, Source: plan.Source}, true
	default:
		return protocol.Verdict{}, false
	}
}

// ask is the question about a command, as a person sees it.
func (a *approval) ask(c protocol.Consult) messages.Question {
	r, plan := c.Request, c.Plan
	if c.Denial != nil {
		plan.FirstAttempt = policy.Unsandboxed
	}
	q := messages.Question{Argv: r.Argv, Display: display(r), Dir: r.Dir, OpenInput: r.OpenInput, Reason: c.Plan.Reason, Retry: c.Denial != nil,
		Unsandboxed: plan.FirstAttempt == policy.Unsandboxed || !c.Snapshot.Sandbox.Confined(),
		Segments:    c.Plan.Segments, MoreSegments: c.Plan.MoreSegments,
		Amendment: c.Plan.Amendment, Choices: policy.Choices(r, plan, a.AmendmentFile), Since: time.Now()}
	if c.Denial != nil {
		q.Reason = "command failed; retry without sandbox? " + c.Denial.String() + "; this was seen in its exit and its output, and a command can forge both"
	}
	q.Reason = messages.Visible(q.Reason)
	if filepath.IsAbs(r.Program) && !strings.Contains(r.Argv[0], "/") {
		q.Program = r.Program
	}
	if p := r.Patch; p != nil {
		shown := p.Files[:min(len(p.Files), messages.MaxQuestionFiles)]
		q.Patch = &messages.PatchQuestion{Files: shown, MoreFiles: len(p.Files) - len(shown), Diff: p.Diff}
	}
	if r.Host != nil {
		q.Host, q.Unsandboxed = r.Host.Question(c.Plan), false
	}
	if x := r.Execution; x != nil {
		q.Execution, q.Unsandboxed = &messages.ExecutionQuestion{Process: x.Process, Command: x.Command, Execution: x.Execution}, false
		q.Execution.Rule = c.Plan.Rule
	}
	q.Unseen = c.Snapshot.Executions && c.Snapshot.Sandbox.Confined() && plan.FirstAttempt == policy.Unsandboxed
	if r.SandboxPermissions == messages.PermissionsWithAdditional {
		q.Additional, q.Leads = r.AdditionalPermissions, policy.Leads(r)
	}
	if r.Environment != nil {
		for _, name := range slices.Sorted(maps.Keys(r.Environment.Set)) {
			q.Environment = append(q.Environment, messages.Visible(name+"="+r.Environment.Set[name]))
		}
	}
	return q
}

// display is a command as a person sees it. It shows another argv[0], because some programs behave differently under
// another name.
func display(r policy.Request) string {
	if r.Argv0 == "" || r.Argv0 == r.Argv[0] {
		return messages.Display(r.Argv)
	}
	return "exec -a " + messages.Display([]string{r.Argv0}) + " " + messages.Display(r.Argv)
}

func questionID(n int) messages.QuestionID { return messages.QuestionID(fmt.Sprint("q", n)) }

// closedError distinguishes a question that is over from one that never was. Questions are numbered, so none has to be
// remembered.
func (a *approval) closedError(id messages.QuestionID) error {
	var n int
	if _, err := fmt.Sscanf(string(id), "q%d", &n); err == nil && questionID(n) == id && 0 < n && n <= a.last {
		return &messages.Error{Code: messages.ErrAlreadyResolved, Op: "decide", Subject: string(id),
			Detail: "the question has been answered or withdrawn"}
	}
	return &messages.Error{Code: messages.ErrUnknownQuestion, Op: "decide", Subject: string(id),
		Detail: "there is no such question in this session; list the questions", Hint: "call Session.Questions"}
}

// refusalOf is the error for an answer that does not approve.
func refusalOf(d messages.Decision) *messages.Error {
	switch d.Kind {
	case messages.DecisionAborted:
		return &messages.Error{Code: messages.ErrAborted, Op: "exec", Detail: "approval request aborted"}
	case messages.DecisionTimedOut:
		return shared.Rejected("nobody answered the question before its deadline")
	default:
		return shared.Rejected(cmp.Or(d.Rejection, "rejected by user"))
	}
}

// nobody is the refusal if nobody can answer; failed says why the approver does not.
func nobody(c protocol.Consult, failed string) *messages.Error {
	e := shared.Rejected("it needs approval, and nobody is there to ask; run a command that needs no approval")
	if inquires(c) {
		e.Detail = "it needs approval, and nobody is there to ask"
	}
	if failed != "" {
		e.Detail = messages.Truncate("it needs approval, and the approver did not answer: "+failed, shared.MaxRejection)
	}
	e.Hint = "set SessionOptions.Approver, or watch approval_requested by name and answer with Session.Decide; " +
		"or choose an approval policy that does not ask"
	return e
}
