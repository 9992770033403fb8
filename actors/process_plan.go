package actors

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// planned is what is to be done with a command.
type planned struct {
	launch   ptyio.Launch
	request  policy.Request
	snapshot policy.Snapshot
	plan     policy.Plan
	err      error
	missing  error // the program was found nowhere
}

// approvalLost says that nobody can be asked any more.
type approvalLost struct{}

// decide makes the plan for an order. If look is set, which is what looks says, it looks at the file system.
func (s *settings) decide(ctx context.Context, o *order, look bool, plan func(policy.Request, policy.Snapshot) policy.Plan) planned {
	p := planned{snapshot: policy.Snapshot{Approval: s.approval, Sandbox: s.sandbox, Rules: s.rules}}
	if p.launch, p.err = s.launch(o); p.err != nil {
		return p
	}
	p.request = policy.Request{Argv: p.launch.Argv, Argv0: o.Argv0, Dir: p.launch.Dir, Environment: o.Environment, CommandPolicy: o.CommandPolicy}
	if look {
		if p.request.Program, p.missing = ptyio.FindProgram(ctx, p.launch); p.missing != nil {
			p.request.Program = policy.NotFound
		}
		p.snapshot.TrustedShells = trustedShells()
	}
	p.plan = plan(p.request, p.snapshot)
	p.bind()
	return p
}

// bind makes the program that was looked at the one that runs: a person may take long to answer, and PATH may lead
// elsewhere by then.
func (p *planned) bind() {
	name := p.launch.Argv[0]
	if filepath.IsAbs(p.request.Program) && !strings.Contains(name, "/") {
		if p.launch.Argv0 == "" {
			p.launch.Argv0 = name
		}
		p.launch.Argv = append([]string{p.request.Program}, p.launch.Argv[1:]...)
	}
}

// looks reports whether the plan needs to know which file a program is: for a shell, to believe that it is one; where it
// matters what is known of programs by name; and where there may be a question, because the answer is remembered for that
// file. Looking may wait for the file system.
func (s *settings) looks(o *order) bool {
	asks := s.approval.Mode != messages.Never && s.approval.String() != string(messages.OnRequest) ||
		o.SandboxPermissions != "" || policy.Dangerous(o.Argv)
	if o.Script != "" || s.rules != nil || asks {
		return true
	}
	_, shell := shellKinds[shellKind(o.Argv[0])]
	return shell
}

// startPlan makes the plan, in a goroutine where that looks at the file system.
func (p *process) startPlan() {
	if !p.settings.looks(&p.order) {
		m := p.settings.decide(context.Background(), &p.order, false, p.makePlan)
		p.proceed(&m)
		return
	}
	settings, order, plan := p.settings, p.order, p.makePlan // the goroutine must not touch the actor
	p.ctx.Go(func(ctx context.Context) any {
		m := settings.decide(ctx, &order, true, plan)
		return &m
	})
}

// proceed goes where the plan says.
func (p *process) proceed(m *planned) {
	if p.state != messages.StatePlanning {
		return // it was terminated meanwhile
	}
	if m.err != nil {
		p.failed(m.err)
		return
	}
	p.launch, p.command, p.snapshot, p.plan = m.launch, m.request, m.snapshot, m.plan
	_, unenforceable := p.spawner.Can(p.confinement())
	switch {
	case m.plan.Decision != policy.Reject && m.missing != nil: // what comes to be found under its name later was never looked at
		p.failed(m.missing)
	case m.plan.Decision != policy.Reject && unenforceable != nil: // before anybody is asked
		p.failed(unenforceable)
	case m.plan.Decision == policy.Run:
		p.decided(verdict{plan: m.plan, source: m.plan.Source})
		p.allow()
	case m.plan.Decision == policy.Ask:
		p.consult(nil)
	default:
		v := verdict{plan: m.plan, source: m.plan.Source, refusal: rejected(m.plan.Reason)}
		p.decided(v)
		p.refused(v)
	}
}

// allow goes on to the first attempt.
func (p *process) allow() {
	p.launch.Sandbox = p.confinement()
	p.ctx.Send(p.supervisor, wantSlot{p.id})
}

// confinement is what the first attempt may do; nil: everything.
func (p *process) confinement() *ptyio.Confinement {
	if p.plan.FirstAttempt == policy.Unsandboxed || !p.snapshot.Sandbox.Confined() {
		return nil
	}
	confinement := &ptyio.Confinement{Policy: p.snapshot.Sandbox}
	if p.command.SandboxPermissions == messages.WithAdditionalPermissions {
		confinement.Additional = p.command.AdditionalPermissions
	}
	return confinement
}

// consult asks for a verdict: about the first attempt, or about another after a denial.
func (p *process) consult(denial *messages.Denial) {
	p.advance(messages.StateAwaitingApproval)
	p.asking = true
	p.holdRun()
	if p.unwanted { // while the plan was made
		p.unasked(true)
		return
	}
	if p.approval == nil {
		p.approvalLost(errNoApproval)
		return
	}
	p.ctx.Request(p.approval, consult{p.command, p.snapshot, p.plan, denial, p.origin()})
}

// approvalLost refuses for want of anybody who could be asked.
func (p *process) approvalLost(why *messages.Error) {
	p.verdict(verdict{plan: p.plan, source: messages.ByAbsence, refusal: rejected("it needs approval, and " + why.Detail)})
}

// withdraw takes a question back.
func (p *process) withdraw() {
	if p.asking {
		p.asking = false
		if p.approval != nil {
			p.ctx.Send(p.approval, withdraw{p.ctx.Self()})
		}
	}
}

// verdict goes on as the answer says. What a person approved is not asked about again after a denial; what a rule or a
// grant for something else has let through meanwhile is.
func (p *process) verdict(v verdict) {
	if !p.asking {
		return
	}
	p.asking = false
	p.decided(v)
	switch {
	case p.denied != nil:
		p.retryDecided(v)
	case v.refusal != nil:
		p.refused(v)
	default:
		p.plan = v.plan
		if v.decision.Approves() && p.plan.OnDenial == policy.AskTo {
			p.plan.OnDenial = policy.Retry
		}
		p.armRun()
		p.allow()
	}
}

// refused ends a command that must not run.
func (p *process) refused(v verdict) {
	record := &messages.EndRecord{Cause: messages.CauseRejected, Status: messages.NoStatus, Detail: v.refusal.Detail}
	if v.refusal.Code == messages.CodeAborted {
		record.Cause = messages.CauseAborted
	}
	refusal := *v.refusal // others have it, too
	refusal.Subject = p.id.String()
	p.end(record, &refusal)
}

// unasked ends a command about which a question is open, or is about to be, because the call that asked for it was taken
// back.
func (p *process) unasked(initial bool) {
	p.unwanted = p.unwanted || initial
	if !initial || !p.asking {
		return
	}
	p.withdraw()
	failure := &messages.Error{Code: messages.CodeCancelled, Op: "exec", Subject: p.id.String(),
		Detail: "the call was cancelled while it waited for approval"}
	if p.denied != nil {
		p.giveUp(failure)
		return
	}
	p.end(&messages.EndRecord{Cause: messages.CauseAborted, Status: messages.NoStatus, Detail: failure.Detail}, failure)
}

// decided tells everyone of a decision about the attempt to come.
func (p *process) decided(v verdict) {
	d := messages.ToolDecision{Origin: p.origin(), Attempt: p.attempt + 1, Allowed: v.refusal == nil, Source: v.source,
		Decision: v.decision, Unsandboxed: p.denied != nil || v.plan.FirstAttempt == policy.Unsandboxed || !p.snapshot.Sandbox.Confined(),
		Reason: v.plan.Reason}
	if v.refusal != nil {
		d.Reason = v.refusal.Detail
	}
	p.bus.Publish(d)
	p.telemetry.decided(d)
	level := slog.LevelDebug
	if !d.Allowed {
		level = slog.LevelInfo
	}
	if p.logger.Enabled(context.Background(), level) {
		p.logger.Log(context.Background(), level, "decision about a command", "process", int(p.id), "attempt", d.Attempt, "allowed", d.Allowed,
			"source", string(d.Source), "decision", string(d.Decision), "unsandboxed", d.Unsandboxed)
	}
}
