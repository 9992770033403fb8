package process

import (
	"context"
	"log/slog"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// planning is the state in which the plan for a command is made.
type planning struct {
	unwanted bool // the call that asked for the command was cancelled
}

func (*planning) name() messages.ProcessState { return messages.StatePlanning }

// enter makes the plan in a goroutine: a long script takes a while, and looking at the machine, or asking a host's own spawner, may
// block.
func (s *planning) enter(p *process) {
	if !looks(p.settings, &p.command) && p.settings.Enclosing.Known() && !p.settings.Demands(&p.command) {
		p.ctx.Go(p.plan())
		return
	}
	p.look(p.plan())
}

// look runs work that looks at the machine.
func (p *process) look(work func(context.Context) any) {
	if _, prompt := p.Spawner.(ptyio.Prompt); prompt {
		p.ctx.Go(work)
		return
	}
	asked := p.Asked
	p.ctx.Detach(func(ctx context.Context) any {
		select {
		case asked <- struct{}{}:
			defer func() { <-asked }()
			return work(ctx)
		case <-ctx.Done():
			return nil // too many plans wait for the host's spawner
		}
	})
}

// plan is the work that makes the plan outside of the actor, which it must not touch.
func (p *process) plan() func(context.Context) any {
	settings, order, plan, spawner := p.settings, p.command, p.MakePlan, p.Spawner
	looks := looks(settings, &order)
	return func(ctx context.Context) any {
		var machine ptyio.Resolver
		if looks {
			machine = spawner.Resolver()
		}
		d := decide(ctx, settings, &order, machine, plan, spawner.Can)
		d.checkSandbox(spawner)
		return planned{d}
	}
}

func (s *planning) receive(p *process, message any) bool {
	switch m := message.(type) {
	case planned:
		s.planned(p, m.decision)
	default:
		return p.lookFailed(message)
	}
	return true
}

// lookFailed ends a command if the work that looked at the machine has failed. It reports whether the message says that.
func (p *process) lookFailed(message any) bool {
	m, failed := message.(system.WorkFailed)
	if !failed {
		return false
	}
	p.failed(&messages.Error{Code: messages.ErrRuntimeFailure, Op: "plan", Detail: "the spawner's resolver did not answer: " + m.Err.Error()})
	return true
}

func (s *planning) planned(p *process, d *decision) {
	p.settle(d, s.unwanted, func() { p.advance(&starting{}) }, func() { p.advance(&awaitingApproval{}) })
}

// settle acts on a plan: it goes on with run or ask, or ends the command. unwanted says that the call was cancelled that asked for it.
func (p *process) settle(d *decision, unwanted bool, run, ask func()) {
	if d.err != nil {
		p.failed(d.err)
		return
	}
	p.decision = d
	switch {
	case d.plan.Decision != policy.Reject && d.missing != nil: // never start a program that appears under this name later
		p.failed(d.missing)
	case d.plan.Decision != policy.Reject && d.refused != nil: // before anybody is asked
		p.failed(d.refused)
	case d.plan.Decision == policy.Run:
		p.decided(protocol.Verdict{Plan: d.plan, Source: d.plan.Source})
		run()
	case d.plan.Decision == policy.Ask && unwanted:
		p.aborted()
	case d.plan.Decision == policy.Ask:
		ask()
	default:
		v := protocol.Verdict{Plan: d.plan, Source: d.plan.Source, Refusal: shared.Rejected(d.plan.Reason)}
		p.decided(v)
		p.refused(v)
	}
}

func (s *planning) terminate(p *process, _ messages.Terminate) { p.failed(nil) }

func (s *planning) unasked(*process) { s.unwanted = true }

// decided publishes a decision about the next attempt.
func (p *process) decided(v protocol.Verdict) {
	next := 1
	if p.attempt != nil {
		next = p.attempt.number + 1
	}
	d := messages.ToolDecision{Origin: p.origin(), Attempt: next, Argv: p.decision.request.Argv, Dir: p.decision.request.Dir, Allowed: v.Refusal == nil, Source: v.Source,
		Decision: v.Decision, Unsandboxed: next > 1 || v.Plan.FirstAttempt == policy.Unsandboxed || !p.decision.snapshot.Sandbox.Confined(),
		Reason: v.Plan.Reason, Rule: v.Plan.Rule, Unread: v.Plan.Unread}
	if v.Refusal != nil {
		d.Reason = v.Refusal.Detail
	}
	if v.Source == messages.DecidedByPerson || v.Source == messages.DecidedByDeadline {
		p.waited += time.Since(p.consulted)
	}
	p.Bus.Publish(d)
	p.Telemetry.Decided(d)
	level := slog.LevelDebug
	if !d.Allowed {
		level = slog.LevelInfo
	}
	if p.Logger.Enabled(context.Background(), level) {
		p.Logger.Log(context.Background(), level, "decision about a command", "process", int(p.id), "attempt", d.Attempt, "allowed", d.Allowed,
			"source", string(d.Source), "decision", string(d.Decision), "unsandboxed", d.Unsandboxed, "unread", d.Unread)
	}
}
