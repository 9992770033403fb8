package process

import (
	"time"

	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// run has the streams of a run to the end, from their beginning up to a limit, and its timeout. Nil means that the
// command is not such a run.
type run struct {
	limit          int
	full           bool
	timeout        *time.Duration // nil: none
	stdout, stderr []byte
	omitted        int64
	timedOut       bool
	cancelled      bool
	clock          *system.Timer // of the timeout; nil while it does not run
	left           time.Duration // of the timeout, when the clock began to run or was paused
	since          time.Time     // when the clock began to run
	due            bool          // the clock runs, or will when it is not paused
	paused         bool          // a person is asked about a host
}

func newRun(m *messages.RunCommand) *run {
	r := &run{limit: messages.MaxRunOutput, full: m.Full}
	if m.Timeout != nil && *m.Timeout > 0 {
		r.timeout = m.Timeout
	}
	if m.Full {
		r.limit = messages.MaxFullOutput
	}
	return r
}

// keep is a sink.
func (r *run) keep(chunk ptyio.Chunk, _ []*bus.Credit) {
	kept := &r.stdout
	if chunk.Stream == messages.StreamStderr {
		kept = &r.stderr
	}
	n := min(len(chunk.Bytes), r.limit-len(*kept))
	*kept = append(*kept, chunk.Bytes[:n]...)
	r.omitted += int64(len(chunk.Bytes) - n)
}

// clear forgets the output of an attempt before the next one begins.
func (r *run) clear() {
	if r != nil {
		r.stdout, r.stderr, r.omitted = nil, nil, 0
	}
}

// hold stops the timeout of an attempt.
func (r *run) hold() {
	if r != nil {
		r.clock.Cancel()
		r.clock, r.due = nil, false
	}
}

// pause lets the timeout stand still, while an attempt goes on.
func (r *run) pause() {
	if r == nil {
		return
	}
	if r.paused = true; r.clock != nil {
		r.clock.Cancel()
		r.clock, r.left = nil, max(r.left-time.Since(r.since), 0)
	}
}

// resume lets it go on with the time that is left.
func (r *run) resume(ctx *system.Context) {
	if r == nil {
		return
	}
	if r.paused = false; r.due && r.clock == nil {
		r.since, r.clock = time.Now(), ctx.After(r.left, runTimeout{})
	}
}

// armRun starts the timeout of an attempt.
func (p *process) armRun() {
	if r := p.run; r != nil && r.timeout != nil {
		r.hold()
		r.left, r.due = *r.timeout, true
		if !r.paused {
			r.resume(p.ctx)
		}
	}
}

// runTimedOut ends a run whose time is over, unless its leader has exited.
func (p *process) runTimedOut() {
	switch p.state.(type) {
	case *exited, *closed:
		return
	}
	p.run.timedOut = true
	p.terminate(messages.Terminate{By: messages.TerminatedByTimeout, Grace: p.graceOf(0)})
}

// cancelRun ends a run whose caller has cancelled it. Its answer says so.
func (p *process) cancelRun() {
	switch p.state.(type) {
	case *exited, *closed:
		return
	}
	p.run.cancelled = true
	p.terminate(messages.Terminate{By: messages.TerminatedByUser, Grace: p.graceOf(messages.RunCancelGrace)})
}

// graceOf is the grace of a run that is ended early: the command's own, or else usual.
func (p *process) graceOf(usual time.Duration) *time.Duration {
	if p.command.Grace != nil {
		return p.command.Grace
	}
	return &usual
}

// finishRun answers a run with the results so far.
func (p *process) finishRun() {
	if c := p.asker(); c != nil && c.kind == runCall {
		p.finish(c)
	}
}

// finishRunEarly answers a run that was ended before it began.
func (p *process) finishRunEarly() {
	if p.run != nil && (p.run.timedOut || p.run.cancelled) {
		p.finishRun()
	}
}

// result is the result of a run.
func (r *run) result(p *process) *messages.RunResult {
	result := &messages.RunResult{Process: p.id, Status: p.status(), Lost: p.lost(), TimedOut: r.timedOut, Cancelled: r.cancelled,
		Denial: p.denial, Limit: p.reached(), Stdout: r.stdout, Stderr: r.stderr, Omitted: r.omitted, Waited: p.waitedSoFar(), BlockedHosts: p.blockedHosts(),
		RefusedExecutions: p.executed.refusals()}
	if p.attempt != nil && p.attempt.exit != nil {
		result.Duration = p.attempt.exitedAt.Sub(p.attempt.bornAt)
		if p.attempt.over() {
			result.Tree = new(joined(p.past, p.attempt.tree))
		}
	}
	limit := messages.MaxRunOutput
	if r.full {
		limit = len(r.stdout) + len(r.stderr)
	}
	result.Aggregated = aggregate(r.stdout, r.stderr, limit)
	code, known := result.Status.Code()
	switch {
	case r.timedOut:
		code = messages.ExitCodeRunTimedOut
	case r.cancelled:
		code = messages.ExitCodeRunCancelled
	case !known:
		code = -1
	}
	result.ExitCode = code
	p.told = true
	return result
}

// aggregate joins the streams of a run in at most limit bytes; see messages.RunResult.
func aggregate(stdout, stderr []byte, limit int) []byte {
	limit = max(limit, 0)
	if len(stdout)+len(stderr) > limit {
		forStdout := min(len(stdout), limit/3)
		forStderr := min(len(stderr), limit-forStdout)
		forStdout = min(len(stdout), limit-forStderr)
		stdout, stderr = stdout[:forStdout], stderr[:forStderr]
	}
	joined := make([]byte, 0, len(stdout)+len(stderr))
	return append(append(joined, stdout...), stderr...)
}
