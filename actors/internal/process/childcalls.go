package process

import (
	"context"
	"errors"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// childCalls make the calls of a process's actor to its child. The methods of our own children return at once, and are
// called directly. Those of a host's own may do anything: they are called in goroutines, one after the other.
type childCalls struct {
	child  ptyio.Child
	prompt bool
	jobs   []job // that wait; the first one is under way if busy
	last   int   // number of the newest job
	busy   bool
	stuck  bool // a call has taken too long: no more are made until it returns
	given  bool // the child was abandoned
}

// maxJobs bounds the calls to one child that wait.
const maxJobs = 256

// job is one call to a child.
type job struct {
	number int
	call   *call  // that waits for the result; may be nil
	write  uint64 // the write that it begins; zero for none
	ends   bool   // it is to end the tree
	do     func(ptyio.Child) error
	done   func() // called by the process after success; may be nil, as the next
	failed func() // called by the process otherwise
}

func newChildCalls(child ptyio.Child) *childCalls {
	return &childCalls{child: child, prompt: ptyio.IsPrompt(child)}
}

var errChildHangs = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "use process",
	Detail: "the spawner of the process does not answer: an earlier request has not returned; try again later, or terminate it"}

// do makes a call, now or when the earlier ones have returned. A call that is to be answered is a jobCall of p.
func (h *childCalls) do(p *process, j job) {
	if h.prompt {
		p.jobEnded(j, j.do(h.child))
		return
	}
	if h.stuck || len(h.jobs) >= maxJobs {
		p.jobEnded(j, errChildHangs)
		return
	}
	h.last++
	j.number = h.last
	h.jobs = append(h.jobs, j)
	h.next(p)
}

// next begins the first job that waits.
func (h *childCalls) next(p *process) {
	if h.busy || len(h.jobs) == 0 || p.attempt == nil { // the job before may have been all that the process waited for
		return
	}
	h.busy = true
	j, child, number := h.jobs[0], h.child, p.attempt.number
	sys, self := p.ctx.System(), p.ctx.Self()
	bound, cancel := context.WithTimeout(context.Background(), p.Patience.Child)
	report := func(_ struct{}, err error) {
		cancel()
		sys.Send(self, jobDone{number, j.number, err})
	}
	hostcode.Call[struct{}]{Who: "the spawner of the process", Do: func(context.Context) (none struct{}, _ error) { return none, j.do(child) },
		Late: report}.Go(bound, report)
}

// jobDone takes the result of a call, and makes the next.
func (p *process) jobDone(m jobDone) {
	h := p.callsTo(m.attempt)
	if h == nil || !h.busy || h.jobs[0].number != m.job {
		return
	}
	if failure, failed := errors.AsType[*hostcode.Failure](m.err); failed && failure.Hangs {
		p.jobHangs(h)
		return
	}
	j := h.jobs[0]
	h.busy, h.stuck, h.jobs = false, false, h.jobs[1:]
	p.jobEnded(j, m.err)
	if j.ends && m.err != nil { // the tree's end will not be reported
		p.overdue(endOverdue{attempt: m.attempt})
	}
	h.next(p)
}

// jobHangs refuses the calls behind one that does not return in time.
func (p *process) jobHangs(h *childCalls) {
	h.stuck = true
	waiting := h.jobs[1:]
	h.jobs = h.jobs[:1:1]
	p.jobEnded(h.jobs[0], errChildHangs)
	h.jobs[0].call, h.jobs[0].write = nil, 0 // it is answered
	for _, j := range waiting {
		p.jobEnded(j, errChildHangs)
	}
}

// leave answers the calls to a child when the next attempt replaces it, because nobody will answer them later.
func (h *childCalls) leave(p *process) {
	left := h.jobs
	h.jobs, h.busy = nil, false
	for _, j := range left {
		p.jobEnded(j, p.refuse(messages.ErrWrongState, "the attempt that it was meant for has ended; try again when the next one runs", ""))
	}
}

func (p *process) callsTo(attempt int) *childCalls {
	if p.attempt == nil || p.attempt.number != attempt {
		return nil
	}
	return p.attempt.calls
}

// jobEnded answers the caller that waits for a job. A write that has begun is answered when its own result arrives.
func (p *process) jobEnded(j job, err error) {
	if j.write != 0 && err != nil {
		p.wrote(wrote{j.write, ptyio.Taken{}, err})
	}
	if err == nil && j.done != nil {
		j.done()
	}
	if err != nil && j.failed != nil {
		j.failed()
	}
	if j.call != nil {
		p.answer(j.call, protocol.Outcome(j.call.op, err))
	}
}

// endTree ends the tree. If a host's own spawner does not end it in time, it is abandoned, once, and then named as a
// survivor.
func (h *childCalls) endTree(p *process, grace time.Duration) {
	h.do(p, job{ends: true, do: func(child ptyio.Child) error {
		child.EndTree(grace)
		return nil
	}})
	if !h.prompt {
		p.ctx.After(grace+p.Patience.End, endOverdue{attempt: p.attempt.number})
	}
}

// overdue goes on without a child that does not end.
func (p *process) overdue(m endOverdue) {
	h := p.callsTo(m.attempt)
	switch {
	case h == nil || p.attempt.over():
	case m.abandoned:
		p.disown()
	case !h.given:
		h.given = true
		shared.Abandon(h.child)
		p.ctx.After(p.Patience.End, endOverdue{m.attempt, true})
	}
}

// disown abandons a child, and reports the events that it has not reported.
func (p *process) disown() {
	a := p.attempt
	if a.exit == nil {
		a.exit, a.exitedAt = &ptyio.Exited{Status: messages.StatusNone(), Lost: errNoEnd}, time.Now()
	}
	a.drained, a.closed, a.treeEnded = true, true, true
	a.tree = shared.NotEnded(a.pid, p.command.Argv)
	p.flushAll()
}

var errNoEnd = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "end process", Detail: "its spawner never reported the end, and it was abandoned"}

// foreign is a host's own child as actors know it.
func foreign(child ptyio.Child) ptyio.Child {
	once := abandonedOnce{child, make(chan struct{}, 1)}
	if inquirer, can := child.(ptyio.Inquirer); can {
		return struct {
			abandonedOnce
			ptyio.Inquirer
		}{once, inquirer}
	}
	return once
}

// abandonedOnce is a host's own child. Both actors that are told of its birth may have to abandon it.
type abandonedOnce struct {
	ptyio.Child
	first chan struct{} // room for one: the actor that comes first abandons the child
}

func (a abandonedOnce) Abandon() {
	select {
	case a.first <- struct{}{}:
		a.Child.Abandon()
	default:
	}
}

// Watch implements ptyio.Watched, for a child that does.
func (a abandonedOnce) Watch(watched bool) {
	if child, can := a.Child.(ptyio.Watched); can {
		child.Watch(watched)
	}
}

// Place implements ptyio.Watched, for a child that does.
func (a abandonedOnce) Place(positions []messages.CursorPosition) {
	if child, can := a.Child.(ptyio.Watched); can {
		child.Place(positions)
	}
}

// pidOf asks a child for its pid; 0 if it fails.
func pidOf(child ptyio.Child) (pid int) {
	if ptyio.IsPrompt(child) {
		return child.PID()
	}
	pid, _ = hostcode.Call[int]{Do: func(context.Context) (int, error) { return child.PID(), nil }}.Wait(context.Background())
	return pid
}
