package host

import (
	"context"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// wanted says to a warden which executions are to be seen.
func wanted(e *ptyio.Executions) *executions.Wanted {
	return &executions.Wanted{Names: e.Names, All: e.All, Judge: e.Judge != nil, Report: e.Seen != nil}
}

var verdicts = map[ptyio.Verdict]executions.Verdict{ptyio.Allowed: executions.Allow, ptyio.AllowedAlike: executions.AllowAlike}

// executions takes what a reply says about executions, and reports whether it is about them.
func (p *process) executions(reply wire.Reply) bool {
	if reply.Execution == nil && reply.Withdrawn == nil && reply.Seen == nil {
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
	case reply.Withdrawn != nil && reply.Withdrawn.Late:
		l.judged(reply.Withdrawn.Number, ptyio.ErrJudgedLate)
	case reply.Withdrawn != nil:
		l.judged(reply.Withdrawn.Number, ptyio.ErrCallerGone)
	default:
		batch := make([]ptyio.Execution, len(reply.Seen.Batch))
		for i, e := range reply.Seen.Batch {
			batch[i] = ptyio.Execution(e)
		}
		l.spec.Executions.Seen(batch, reply.Seen.Dropped)
	}
	return true
}

// judge has an execution judged, in a goroutine of its own: the warden bounds their number.
func (l *leader) judge(number uint64, e ptyio.Execution) {
	ctx, cancel := context.WithCancelCause(context.Background())
	l.process.mu.Lock()
	ended := l.judging == nil
	if !ended {
		l.judging[number] = cancel
	}
	l.process.mu.Unlock()
	if ended {
		cancel(nil)
		return
	}
	go func() {
		defer cancel(nil)
		answer := func(v executions.Verdict) { l.process.out.Judge(l.id, wire.Judged{Number: number, Verdict: v}) }
		verdict := verdicts[l.spec.Executions.Judge(ctx, e, func() { answer(executions.Later) })] // refused, if it is none of them
		if l.judged(number, nil) {
			answer(verdict)
		}
	}()
}

// judged ends the judgement of an execution, with a cause. It reports whether nothing else had.
func (l *leader) judged(number uint64, cause error) bool {
	l.process.mu.Lock()
	cancel := l.judging[number]
	delete(l.judging, number)
	l.process.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	return cancel != nil
}

// judgeNoMore ends all judgements of a tree. It is called with process.mu held.
func (l *leader) judgeNoMore() {
	for _, cancel := range l.judging {
		cancel(ptyio.ErrCallerGone)
	}
	l.judging = nil
}
