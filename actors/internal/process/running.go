package process

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/denial"
)

// running is the state in which a child lives, or in which another attempt may follow one that its sandbox has stopped.
type running struct {
	stage  stage
	denied *messages.Denial // the denial; set from the stage asking on
}

// stage is how far a running process has come.
type stage int

const (
	living     stage = iota // the leader lives
	judging                 // it has exited; the exit is not reported before it is known whether its sandbox stopped it
	asking                  // somebody is asked about another attempt
	clearing                // another attempt follows when everything of this one has ended
	respawning              // the spawner starts the next attempt
)

// between reports whether one attempt is over and the next has not begun.
func (s *running) between() bool { return s.stage >= asking }

func (s *running) name() messages.ProcessState {
	if s.between() {
		return messages.StateStarting
	}
	return messages.StateRunning
}

func (*running) enter(p *process) { p.programRuns() }

func (s *running) receive(p *process, message any) bool {
	switch m := message.(type) {
	case protocol.ChildEvent:
		return m.Attempt == p.attempt.number && s.event(p, m)
	case protocol.Verdict:
		if s.stage == asking {
			s.verdict(p, m)
		}
	case judgeNow:
		if m.attempt == p.attempt.number {
			s.judge(p)
		}
	case spawnFailed:
		if s.stage == respawning {
			p.failed(m.err)
		}
	default:
		return p.timeIsUp(message)
	}
	return true
}

// event notes an event of a child, and continues as far as it allows.
func (s *running) event(p *process, m protocol.ChildEvent) bool {
	switch e := m.Event.(type) {
	case ptyio.Spawned:
		if s.stage != respawning {
			return false
		}
		s.stage, s.denied = living, nil
		p.born(e, m.PID)
		p.tellProgress()
		p.catchUp()
		p.programRuns()
		return true
	}
	if s.stage == respawning {
		return p.attempt.keepEarly(m)
	}
	switch e := m.Event.(type) {
	case ptyio.Exited:
		if p.attempt.exit == nil {
			s.exited(p, e)
		}
		return true
	}
	known := p.learn(m.Event)
	s.step(p)
	return known
}

// exited holds back the exit of a leader that may have been stopped by its sandbox, until the earlier output has arrived.
func (s *running) exited(p *process, e ptyio.Exited) {
	a := p.attempt
	a.exit, a.exitedAt = &e, time.Now()
	if !p.mayBeDenied(e) {
		if p.decision.launch.Sandbox != nil {
			p.denial = p.reported(e)
		}
		p.advance(&exited{})
		return
	}
	s.stage = judging
	p.run.hold()
	if p.run != nil {
		p.ctx.After(messages.RunDrain, judgeNow{a.number}) // as long as a run waits for output that no subscriber takes
	}
	s.step(p)
}

// step moves to the next stage when the condition of the current one is met.
func (s *running) step(p *process) {
	a := p.attempt
	if p.decision.launch.Sandbox == nil || p.decision.plan.OnDenial == policy.Return || p.ending.wanted { // it is the last attempt
		p.closeOutput()
	}
	switch {
	case a.exit == nil:
	case s.stage == living: // its child was abandoned before it reported the exit
		p.advance(&exited{})
	case s.stage == judging && a.drained:
		s.judge(p)
	case s.stage != clearing || !a.over():
	case p.input.open() > 0:
		p.limitInput()
	default:
		s.again(p)
	}
}

// mayBeDenied reports whether an exit has to be judged before it is reported. Another attempt is possible only as long
// as the call that asked for the command waits: after that, a caller has seen the first one.
func (p *process) mayBeDenied(e ptyio.Exited) bool {
	return p.decision.launch.Sandbox != nil && e.Lost == nil && !p.ending.wanted && p.asker() != nil &&
		(p.reported(e) != nil || e.Status != messages.StatusExited(0))
}

// judge decides, once, whether a held back exit was caused by the sandbox.
func (s *running) judge(p *process) {
	if s.stage != judging {
		return
	}
	a, plan := p.attempt, p.decision.plan
	denial := p.denialOf(*a.exit)
	early := denial != nil && (!denial.FromText || a.exitedAt.Sub(a.bornAt) <= earlyDenial)
	another, spent := plan.OnDenial == policy.AskTo || plan.OnDenial == policy.Retry && early, p.input.spent()
	switch {
	case denial == nil || p.ending.wanted || p.asker() == nil:
		p.advance(&exited{})
	case !another || spent != "":
		told := *denial
		if another {
			told.NoRetry = spent
		}
		p.denial = &told
		p.advance(&exited{})
	case plan.OnDenial == policy.AskTo:
		s.stop(p, denial, asking)
		p.consult(denial)
	default:
		s.stop(p, denial, clearing)
		p.decided(protocol.Verdict{Plan: plan, Source: plan.Source})
		s.clear(p)
	}
}

// stop ends the rest of an attempt that was denied.
func (s *running) stop(p *process, denial *messages.Denial, next stage) {
	s.stage, s.denied = next, denial
	p.Bus.Publish(messages.AttemptEnded{Origin: p.origin(), Attempt: p.attempt.number, Denial: denial, Enforced: p.attempt.enforced})
	p.tellProgress()
	p.endTree(p.grace(messages.Terminate{})) // its order may say that the children are kept
}

// verdict acts on the decision about another attempt, by a person or an earlier answer.
func (s *running) verdict(p *process, v protocol.Verdict) {
	p.decided(v)
	if v.Refusal != nil {
		refusal := *v.Refusal
		refusal.Denial = s.denied
		s.giveUp(p, &refusal)
		return
	}
	p.releaseAsker()
	s.stage = clearing
	s.clear(p)
}

// clear commits to another attempt. The timeout of a run starts again at once, because the output of the earlier
// attempt may wait for its reader forever.
func (s *running) clear(p *process) {
	p.armRun()
	s.step(p)
}

// giveUp makes the denial the result. The call that asked for the command gets failure.
func (s *running) giveUp(p *process, failure *messages.Error) {
	p.denial, p.refusal = s.denied, failure
	if c := p.asker(); c != nil {
		p.answer(c, failure)
	}
	p.advance(&exited{})
}

// again begins the next attempt, without a sandbox, when everything of the earlier one has ended. The slot is kept.
func (s *running) again(p *process) {
	s.stage = respawning
	p.past = joined(p.past, p.attempt.tree)
	p.output.Unread.Drain() // an answer is about one attempt; events, the log and the transcript have all
	p.run.clear()
	p.armRun()
	p.rewatch()
	p.decision.launch.Sandbox = nil
	p.attempt.calls.leave(p)
	p.spawn()
}

func (s *running) terminate(p *process, m messages.Terminate) {
	p.limitOutput()
	switch s.stage {
	case respawning:
		p.attempt.callOff() // the spawner's answer ends the process
	case asking, clearing: // there will be no other attempt
		if s.stage == asking {
			p.ctx.Send(p.supervisor, protocol.Withdraw{Process: p.id})
		}
		p.denial = s.denied
		p.endTree(p.grace(m))
		p.advance(&exited{})
	default:
		p.endTree(p.grace(m))
	}
}

// unasked makes the denial the result if a question about another attempt is open for the cancelled call.
func (s *running) unasked(p *process) {
	if s.stage == asking {
		p.ctx.Send(p.supervisor, protocol.Withdraw{Process: p.id})
		s.giveUp(p, abandonedError(p.id))
	}
}

// joined combines the reports on the trees of two attempts.
func joined(a, b messages.TreeReport) messages.TreeReport {
	if len(a.Survivors) == 0 && a.Ended == 0 {
		return b
	}
	return messages.TreeReport{Ended: a.Ended + b.Ended, Survivors: append(a.Survivors[:len(a.Survivors):len(a.Survivors)], b.Survivors...),
		Airtight: a.Airtight && b.Airtight}
}

// earlyDenial is how long a command may have run if it is to be retried without a question after a denial that only its
// output shows. A command that ran longer may have had effects.
const earlyDenial = 150 * time.Millisecond

// reported is the denial that the spawner reports; nil if it reports none. Where an execution was refused, a text such as "Permission
// denied" says nothing about the sandbox.
func (p *process) reported(e ptyio.Exited) *messages.Denial {
	if e.Denial != nil && e.Denial.FromText && p.attempt.forbidden {
		return nil
	}
	return e.Denial
}

// denialOf reports whether the sandbox of the attempt stopped it, going by the spawner or else by the kernel's report and
// the output. Nil means that it did not.
func (p *process) denialOf(e ptyio.Exited) *messages.Denial {
	if told := p.reported(e); told != nil || p.attempt.forbidden {
		return told
	}
	c, d := p.decision.launch.Sandbox.Confinement(), p.decision
	rules := denial.RulesOf(c.Policy, c.Dir, c.TempDir, c.Additional, c.AdditionalDir)
	for _, variable := range d.launch.Env {
		if home, found := strings.CutPrefix(variable, "HOME="); found {
			rules.Home = filepath.Clean(home)
		}
	}
	return denial.Of(denial.Facts{
		Status:  e.Status,
		Output:  p.output.Log.Transcript(ptyio.DefaultBufferSize), // only a first attempt is confined, so all output is its own
		Dir:     d.launch.Dir,
		Command: d.launch.Argv,
		Rules:   rules,
	})
}
