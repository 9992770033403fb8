package actors

import (
	"time"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/messages"
)

// runOutput is what a run to the end keeps of its streams: the beginning of each. Nil keeps nothing.
type runOutput struct {
	limit          int
	stdout, stderr []byte
	omitted        int64
	timedOut       bool
	cancelled      bool
	clock          *kernel.Timer // of the timeout
}

// Timers of a run.
type (
	runTimeout struct{}
	runDrained struct{}
)

func (r *runOutput) keep(stream messages.Stream, delta []byte) {
	if r == nil {
		return
	}
	kept := &r.stdout
	if stream == messages.Stderr {
		kept = &r.stderr
	}
	n := min(len(delta), r.limit-len(*kept))
	*kept = append(*kept, delta[:n]...)
	r.omitted += int64(len(delta) - n)
}

// beginRun lets the sender wait for the end.
func (p *process) beginRun() {
	m := p.order.run
	p.runner, p.run = p.ctx.Sender(), &runOutput{limit: messages.MaxRunOutput}
	if m.Full {
		p.run.limit = messages.MaxFullOutput
		return
	}
	p.armRun()
}

// armRun starts the timeout of an attempt. It does not run while somebody is asked.
func (p *process) armRun() {
	if p.run == nil || p.order.run.Full {
		return
	}
	timeout := p.order.run.Timeout
	if timeout == 0 {
		timeout = messages.DefaultRunTimeout
	}
	if timeout > 0 {
		p.run.clock.Cancel()
		p.run.clock = p.ctx.After(timeout, runTimeout{})
	}
}

// holdRun stops the timeout.
func (p *process) holdRun() {
	if p.run != nil {
		p.run.clock.Cancel()
	}
}

// clear forgets the output of an attempt that another follows.
func (r *runOutput) clear() {
	if r != nil {
		r.stdout, r.stderr, r.omitted = nil, nil, 0
	}
}

func (p *process) runTimer(timer any) {
	switch timer.(type) {
	case runTimeout:
		if p.state != messages.StateExited && p.state != messages.StateClosed {
			p.run.timedOut = true
			p.terminate(messages.Terminate{By: messages.ByTimeout, Grace: -1})
		}
	case runDrained:
		p.noMore()
	}
}

// cancelRun ends a run whose caller has given up.
func (p *process) cancelRun() {
	if p.state == messages.StateExited || p.state == messages.StateClosed {
		return
	}
	p.run.cancelled = true
	p.terminate(messages.Terminate{By: messages.ByUser, Grace: messages.RunCancelGrace})
}

// exitedRun starts to wait for the end of the streams.
func (p *process) exitedRun() {
	if p.run != nil {
		p.ctx.After(messages.RunDrain, runDrained{})
		p.answerRun()
	}
}

// answerRun answers when the leader and its streams have ended.
func (p *process) answerRun() {
	if p.run != nil && p.noOutput && p.state == messages.StateExited {
		p.noMore()
	}
}

// noMore answers with what there is.
func (p *process) noMore() {
	if p.runner == nil {
		return
	}
	r := p.run
	result := &messages.RunResult{Process: p.id, Status: p.status, Lost: p.lost, TimedOut: r.timedOut, Cancelled: r.cancelled,
		Denial: p.denial, Stdout: r.stdout, Stderr: r.stderr, Omitted: r.omitted, Duration: p.exitedAt.Sub(p.began)}
	limit := messages.MaxRunOutput
	if p.order.run.Full {
		limit = len(r.stdout) + len(r.stderr)
	}
	result.Aggregated = messages.Aggregate(r.stdout, r.stderr, limit)
	code, known := p.status.Code()
	switch {
	case r.timedOut:
		code = messages.RunTimedOut
	case r.cancelled:
		code = messages.RunCancelled
	case !known:
		code = -1
	}
	result.ExitCode = code
	p.tell(p.runner, result)
	p.runner, p.told = nil, true
}

// endRun answers a run that never got that far.
func (p *process) endRun(failure error) {
	switch {
	case p.runner == nil:
	case p.exitedAt.IsZero() && (p.run.timedOut || p.run.cancelled): // before it began
		p.exitedAt = time.Now()
		p.noMore()
	case failure != nil:
		p.tell(p.runner, failure)
		p.runner = nil
	default:
		p.noMore()
	}
}
