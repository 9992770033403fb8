package sandbox

import (
	"context"
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// maxPlans bounds the plans that one warden knows. Each takes some descriptors there.
const maxPlans = 1024

// number returns the warden's number for the plan of an enclosure. It sends the plan to a warden that does not know it.
func (p *wardenProcess) number(ctx context.Context, e *enclosure) (uint64, error) {
	select {
	case p.telling <- struct{}{}: // other starts must not use the number before the plan is on its way
		defer func() { <-p.telling }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if n, known := e.knownTo(p); known {
		return n, nil
	}
	register := &wire.Register{Plan: e.found.Plan, Ruleset: -1}
	files := slices.Clone(e.found.Files)
	if e.level() == confine.Confined {
		rules, err := e.plainRules()
		if err != nil {
			return 0, err
		}
		register.Ruleset = len(files)
		files = append(files, rules)
	}
	register.Files = len(files)
	p.mu.Lock()
	if p.plans >= maxPlans {
		p.mu.Unlock()
		return 0, &messages.Error{Code: messages.ErrLimitReached, Op: "spawn", Subject: "sandbox policy",
			Detail: "too many are in use; close sessions that are not needed any more"}
	}
	p.plans++
	p.nextID++
	n := p.nextID
	p.mu.Unlock()
	e.mu.Lock()
	e.numbers[p] = n
	e.mu.Unlock()
	forget := func(error) { p.forgetPlan(e) } // starts that name it are refused
	if err := p.out.Start(ctx, &wire.Request{ID: n, Register: register}, forget, files...); err != nil {
		p.forgetPlan(e)
		return 0, p.refusal("spawn", err)
	}
	return n, nil
}

// knownTo returns the warden's number for the plan. It forgets dead wardens.
func (e *enclosure) knownTo(p *wardenProcess) (number uint64, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for other := range e.numbers {
		if !other.alive() {
			delete(e.numbers, other)
		}
	}
	number, known = e.numbers[p]
	return number, known
}

// forgetPlan forgets a plan that could not be sent.
func (p *wardenProcess) forgetPlan(e *enclosure) {
	p.onePlanLess()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.numbers, p)
}

func (p *wardenProcess) onePlanLess() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans--
}

// withdraw tells the warden that a plan is no longer needed. The message comes after the waiting starts.
func (p *wardenProcess) withdraw(number uint64) {
	p.onePlanLess()
	if p.alive() {
		go func() {
			_ = p.out.Start(context.Background(), &wire.Request{ID: number, Withdraw: &wire.Withdraw{}}, func(error) {})
		}()
	}
}
