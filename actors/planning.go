package actors

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/execbus/execbus/actors/kernel"
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
	_, prompt := p.spawner.(ptyio.Prompt)
	if prompt || !p.settings.looks(&p.order) && p.settings.enclosing.known() && !p.settings.demands(&p.order) {
		p.ctx.Go(s.work(p))
		return
	}
	work, asked := s.work(p), p.asked
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

// work makes the plan outside of the actor, which it must not touch.
func (*planning) work(p *process) func(context.Context) any {
	settings, order, plan, spawner := p.settings, p.order, p.makePlan, p.spawner
	looks := settings.looks(&order)
	return func(ctx context.Context) any {
		var machine ptyio.Resolver
		if looks {
			machine = spawner.Resolver()
		}
		d := settings.decide(ctx, &order, machine, plan)
		d.checkSandbox(spawner)
		return planned{d}
	}
}

func (s *planning) receive(p *process, message any) bool {
	switch m := message.(type) {
	case planned:
		s.planned(p, m.decision)
	case kernel.WorkPanicked:
		p.failed(&messages.Error{Code: messages.ErrRuntimeFailure, Op: "plan", Detail: fmt.Sprintf("the spawner's resolver panicked: %v", m.Reason)})
	case kernel.WorkLeft:
		p.failed(&messages.Error{Code: messages.ErrRuntimeFailure, Op: "plan", Detail: "the spawner's resolver ended its goroutine"})
	default:
		return false
	}
	return true
}

// planned acts on the plan.
func (s *planning) planned(p *process, d *decision) {
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
		p.decided(verdict{plan: d.plan, source: d.plan.Source})
		p.advance(&starting{})
	case d.plan.Decision == policy.Ask && s.unwanted:
		p.aborted()
	case d.plan.Decision == policy.Ask:
		p.advance(&awaitingApproval{})
	default:
		v := verdict{plan: d.plan, source: d.plan.Source, refusal: rejected(d.plan.Reason)}
		p.decided(v)
		p.refused(v)
	}
}

func (s *planning) terminate(p *process, _ messages.Terminate) { p.failed(nil) }

func (s *planning) unasked(*process) { s.unwanted = true }

// decided publishes a decision about the next attempt.
func (p *process) decided(v verdict) {
	next := 1
	if p.attempt != nil {
		next = p.attempt.number + 1
	}
	d := messages.ToolDecision{Origin: p.origin(), Attempt: next, Allowed: v.refusal == nil, Source: v.source,
		Decision: v.decision, Unsandboxed: next > 1 || v.plan.FirstAttempt == policy.Unsandboxed || !p.decision.snapshot.Sandbox.Confined(),
		Reason: v.plan.Reason, Unread: v.plan.Unread}
	if v.refusal != nil {
		d.Reason = v.refusal.Detail
	}
	if v.source == messages.DecidedByPerson || v.source == messages.DecidedByDeadline {
		p.waited += time.Since(p.consulted)
	}
	p.bus.Publish(d)
	p.telemetry.decided(d)
	level := slog.LevelDebug
	if !d.Allowed {
		level = slog.LevelInfo
	}
	if p.logger.Enabled(context.Background(), level) {
		p.logger.Log(context.Background(), level, "decision about a command", "process", int(p.id), "attempt", d.Attempt, "allowed", d.Allowed,
			"source", string(d.Source), "decision", string(d.Decision), "unsandboxed", d.Unsandboxed, "unread", d.Unread)
	}
}
