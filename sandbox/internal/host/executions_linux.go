package host

import (
	"context"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// wanted says to a warden which executions are to be seen.
func wanted(e *ptyio.Executions) *executions.Wanted {
	return &executions.Wanted{Names: e.Names, All: e.All, Judge: e.Judge != nil, Report: e.Seen != nil}
}

var verdicts = map[ptyio.Verdict]executions.Verdict{ptyio.Allowed: executions.Allow, ptyio.AllowedAlike: executions.AllowAlike}

// fates say to a judge what became of an execution.
var fates = map[executions.Fate]error{executions.Passed: nil, executions.Late: ptyio.ErrJudgedLate, executions.Gone: ptyio.ErrCallerGone}

// executions takes what a reply says about executions, and reports whether it is about them.
func (p *process) executions(reply wire.Reply) bool {
	if reply.Execution == nil && reply.Settled == nil && reply.Seen == nil {
		return false
	}
	p.mu.Lock()
	l := p.leaders[reply.ID]
	gone := l == nil || l.abandoned || l.spec.Executions == nil
	p.mu.Unlock()
	switch {
	case gone: // its tree has ended, or will
	case reply.Execution != nil:
		l.judge(reply.Execution.Number, ptyio.Execution(reply.Execution.Execution))
	case reply.Settled != nil:
		l.settled(reply.Settled.Number, fates[reply.Settled.Fate])
	default:
		batch := make([]ptyio.Execution, len(reply.Seen.Batch))
		for i, e := range reply.Seen.Batch {
			batch[i] = ptyio.Execution(e)
		}
		l.spec.Executions.Seen(batch, reply.Seen.Dropped)
	}
	return true
}

// judgement is of one execution. Its fields are guarded by process.mu.
type judgement struct {
	cancel  context.CancelCauseFunc
	settled func(error) // what the judge wants to know; nil before it has answered
}

// judge has an execution judged, in a goroutine of its own: the warden bounds their number.
func (l *leader) judge(number uint64, e ptyio.Execution) {
	ctx, cancel := context.WithCancelCause(context.Background())
	l.process.mu.Lock()
	ended := l.judging == nil
	if !ended {
		l.judging[number] = &judgement{cancel: cancel}
		l.judges.Add(1)
	}
	l.process.mu.Unlock()
	if ended {
		cancel(nil)
		return
	}
	go func() {
		defer l.judges.Done()
		defer cancel(nil)
		answer := func(v executions.Verdict) { l.process.out.Judge(l.id, wire.Judged{Number: number, Verdict: v}) }
		verdict, settled := l.spec.Executions.Judge(ctx, e, func() { answer(executions.Later) })
		if settled == nil {
			settled = func(error) {}
		}
		answered := verdicts[verdict] // refused, if it is none of them
		if l.judged(number, answered != executions.Refuse, settled) {
			answer(answered)
		} else if answered != executions.Refuse {
			settled(context.Cause(ctx))
		}
	}()
}

// judged notes an answer. It reports whether it is in time, as far as we know: of one that allows the warden says what became of it.
func (l *leader) judged(number uint64, allowed bool, settled func(error)) bool {
	l.process.mu.Lock()
	defer l.process.mu.Unlock()
	j := l.judging[number]
	switch {
	case j == nil:
		return false
	case allowed:
		j.settled = settled
	default:
		delete(l.judging, number)
	}
	return true
}

// settled ends the judgement of an execution with what became of that; nil if the kernel executes it.
func (l *leader) settled(number uint64, fate error) {
	l.process.mu.Lock()
	if j := l.judging[number]; j != nil {
		j.end(fate)
	}
	delete(l.judging, number)
	l.process.mu.Unlock()
}

// end is called with process.mu held.
func (j *judgement) end(fate error) {
	if j.cancel(fate); j.settled != nil {
		j.settled(fate)
	}
}

// judgeNoMore ends all judgements of a tree. It is called with process.mu held.
func (l *leader) judgeNoMore() {
	for _, j := range l.judging {
		j.end(ptyio.ErrCallerGone)
	}
	l.judging = nil
}

// judgesEnd is how long the end of a tree waits for its judges, whose contexts have ended then.
const judgesEnd = 2 * time.Second

// treeEnded reports the end of a tree, once its judges have returned: what they say of an execution comes before it. It does not wait
// itself, because the replies about other trees come from the same goroutine.
func (l *leader) treeEnded(report messages.TreeReport) {
	if l.spec.Executions == nil {
		l.spec.TreeEnded(report)
		return
	}
	l.process.endings.Go(func() {
		returned := make(chan struct{})
		go func() {
			l.judges.Wait()
			close(returned)
		}()
		late := time.NewTimer(judgesEnd)
		defer late.Stop()
		select {
		case <-returned:
		case <-late.C:
		}
		l.spec.TreeEnded(report)
	})
}
