package actors

import (
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// attempts is what a process knows of its attempts.
type attempts struct {
	attempt int // the one that runs, from 1
	// suspect is the exit of a leader that may have been stopped by its sandbox. It is told to nobody before it is judged.
	suspect   *ptyio.Exited
	spawnedAt time.Time
	denied    *messages.Denial    // by the sandbox, and another attempt may follow
	again     bool                // it will, when everything of the first has ended
	denial    *messages.Denial    // the last word about it
	refusal   *messages.Error     // why there was no other attempt
	trees     messages.TreeReport // of earlier attempts
	closeTold bool                // OutputClosed was published
}

// mayBeDenied reports whether an exit has to be looked at before it is told.
func (p *process) mayBeDenied(e ptyio.Exited) bool {
	return p.launch.Sandbox != nil && e.Lost == nil && !p.endWanted && p.initialCall() &&
		(e.Denial != nil || e.Status != messages.Exited(0))
}

// initialCall reports whether the call that asked for the command still waits for it. Only then is there another attempt:
// later, somebody has seen the first.
func (p *process) initialCall() bool {
	if p.order.run != nil {
		return p.runner != nil && !p.run.timedOut && !p.run.cancelled
	}
	for _, w := range p.waiters {
		if w == p.initial {
			return true
		}
	}
	return false
}

// suspected keeps an exit back until the output that came before it is here.
func (p *process) suspected(e ptyio.Exited) {
	p.suspect, p.exitedAt = &e, time.Now()
	p.holdRun()
	if p.run != nil {
		p.ctx.After(messages.RunDrain, judgeIt{}) // as long as a run waits for output that nobody takes
	}
}

// judgeIt is a timer's message.
type judgeIt struct{}

// judge decides what a held back exit is, once.
func (p *process) judge() {
	if p.suspect == nil || p.denied != nil {
		return
	}
	e := *p.suspect
	denial := denialOf(e, p.output.log.Transcript(ptyio.DefaultBufferSize)) // only a first attempt is confined: it is all its own
	early := denial != nil && (!denial.FromText || p.exitedAt.Sub(p.spawnedAt) <= earlyDenial)
	switch {
	case denial == nil || p.endWanted || !p.initialCall():
		p.settle()
	case p.plan.OnDenial == policy.AskTo:
		p.stopped(denial)
		p.consult(denial)
	case p.plan.OnDenial == policy.Retry && early:
		p.stopped(denial)
		p.decided(verdict{plan: p.plan, source: p.plan.Source})
		p.runAgain()
	default:
		p.denial = denial
		p.settle()
	}
}

// stopped ends what is left of an attempt that was denied.
func (p *process) stopped(denial *messages.Denial) {
	p.denied = denial
	p.bus.Publish(messages.AttemptEnded{Origin: p.origin(), Attempt: p.attempt, Denial: denial})
	p.child.EndTree(p.grace(messages.Terminate{})) // it may have been asked to keep its children
}

// retryDecided goes on as a person, or what they said before, decided about another attempt.
func (p *process) retryDecided(v verdict) {
	if v.refusal == nil {
		p.runAgain()
		return
	}
	refusal := *v.refusal
	refusal.Subject, refusal.Denial = p.id.String(), p.denied
	p.giveUp(&refusal)
}

// giveUp leaves it at the denial. The call that asked for the command gets failure.
func (p *process) giveUp(failure *messages.Error) {
	p.denial, p.refusal = p.denied, failure
	if p.order.run != nil {
		p.tell(p.runner, failure)
		p.runner = nil
	} else {
		p.answer(p.initial, failure)
	}
	p.settle()
}

// settle makes a held back exit the end of the process, and tells what followed it meanwhile.
func (p *process) settle() {
	e := *p.suspect
	p.suspect, p.denied, p.again = nil, nil, false
	p.exited(e, p.exitedAt)
	p.closedOutput()
	p.answerExit()
	p.endIfOver()
}

// runAgain makes sure of another attempt. The timeout of a run goes on at once: the output of the attempt before may wait
// for its reader for ever.
func (p *process) runAgain() {
	p.again = true
	p.armRun()
	p.tryAgain()
}

// tryAgain begins the next attempt, unsandboxed, when everything of the one before has ended. The slot is kept.
func (p *process) tryAgain() {
	if !p.again || !p.noOutput || !p.treeEnded || len(p.writes) > 0 {
		return
	}
	p.trees = joined(p.trees, p.tree)
	p.again, p.suspect, p.denied, p.child = false, nil, nil, nil
	p.drained, p.noOutput, p.treeEnded, p.background, p.exitedAt = false, false, false, nil, time.Time{}
	p.output.unread.Drain() // an answer is about one attempt; events, the log and the transcript have all
	p.run.clear()
	p.armRun()
	p.launch.Sandbox = nil
	p.spawn()
}

// joined is what became of the trees of two attempts.
func joined(a, b messages.TreeReport) messages.TreeReport {
	if len(a.Survivors) == 0 && a.Ended == 0 {
		return b
	}
	return messages.TreeReport{Ended: a.Ended + b.Ended, Survivors: append(a.Survivors[:len(a.Survivors):len(a.Survivors)], b.Survivors...),
		Airtight: a.Airtight && b.Airtight}
}
