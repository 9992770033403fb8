package actors

import (
	"context"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// process is the actor of one command. It owns the child, its output and those who wait for it. Its state only moves
// forward: planning, awaiting approval, starting, running, exited, closed. An attempt that its sandbox has stopped may be
// followed by another, for which it goes back to awaiting approval or starting.
type process struct {
	*surroundings
	ctx        *kernel.Context
	id         messages.ProcessID
	supervisor *kernel.PID
	order      order
	settings   *settings
	state      messages.ProcessState
	began      time.Time
	launch     ptyio.Launch
	child      ptyio.Child
	output     output
	waiters    []*waiter
	writes     []*waiter // whose bytes the child has not answered for; those that wait for nothing else included
	paused     int       // PauseYields not yet resumed

	approval *kernel.PID    // asks a person; nil when it has crashed
	command  policy.Request // with snapshot, what the plan was made from
	snapshot policy.Snapshot
	plan     policy.Plan
	asking   bool // a verdict is awaited
	unwanted bool // the call that asked for the command was taken back
	attempts

	initial *waiter     // the call that asked for the command, if it waits
	starter *kernel.PID // who waits for the start only (NoWait)
	runner  *kernel.PID // who waits for a run to the end
	run     *runOutput  // of a run to the end

	endWanted  bool                // somebody asked for the end, be it after the leader's exit
	ending     *messages.Terminate // the first request to end it
	status     messages.ExitStatus
	lost       string // why there is no status
	exitedAt   time.Time
	background *messages.Background
	drained    bool
	told       bool // the exit was told to somebody
	noOutput   bool // the output has ended

	outputDropped bool // because a subscriber would not take it
	treeEnded     bool
	tree          messages.TreeReport
}

// Messages from the supervisor to a process.
type (
	// begin starts the actor's one command, which it was made with; its sender is the caller.
	begin struct{}
	// slot is the answer to wantSlot; err says why there is none.
	slot struct{ err error }
	// pause and resume hold and release deadlines.
	pause  struct{}
	resume struct{}
	// cancelWait takes back the call of an asker.
	cancelWait struct{ asker string }
	// retire says that nothing more will be routed to this actor.
	retire struct{}
)

// Messages from a process to its supervisor.
type (
	wantSlot struct{ id messages.ProcessID }
	// progress tells what a listing shows.
	progress struct {
		id    messages.ProcessID
		state messages.ProcessState
		dir   string
		pid   int
	}
	// unborn says that there will be no child; like childEvent it does not come from the actor.
	unborn struct{ id messages.ProcessID }
	// answered says that a call of an asker has been answered.
	answered struct {
		id    messages.ProcessID
		asker *kernel.PID
	}
	// ended is the last word of a process. The output becomes the supervisor's.
	ended struct {
		id     messages.ProcessID
		record *messages.EndRecord
		output output
		told   bool
		// With origin, bus says the word if the supervisor is gone.
		bus    *bus.Bus
		origin messages.Origin
	}
	// childEvent is what a child reports to both. It comes from the child itself, so that the supervisor knows of it
	// even if the process's actor crashes.
	childEvent struct {
		id    messages.ProcessID
		event ptyio.Event
	}
)

// Messages of a process to itself.
type (
	spawnFailed struct{ err error }
	flushHeld   struct{ stream messages.Stream }
	dropOutput  struct{}
)

// Discard passes the discard of a message on to the event in it.
func (e childEvent) Discard() {
	if owner, ok := e.event.(kernel.Discarder); ok {
		owner.Discard()
	}
}

// Discard says the last word instead of a supervisor that cannot any more.
func (m ended) Discard() { m.bus.Publish(execEnded(m.origin, m.record, m.output)) }

// receive is the actor's behaviour.
func (p *process) receive(ctx *kernel.Context) {
	p.ctx = ctx
	switch m := ctx.Message().(type) {
	case kernel.Started, kernel.Terminated:
	case kernel.Stopping:
		p.leave()
	case begin:
		p.begin()
	case *planned:
		p.proceed(m)
	case slot:
		p.start(m.err)
	case verdict:
		p.verdict(m)
	case approvalLost:
		p.approvalLost(errNoApproval)
	case kernel.Unanswered: // by the approval actor
		p.approvalLost(m.Err)
	case spawnFailed:
		p.failed(m.err)
	case kernel.WorkLeft:
		p.spawnerLeft()
	case childEvent:
		p.childEvent(m.event)
	case flushHeld:
		p.flush(m.stream)
	case dropOutput:
		if !p.noOutput {
			p.outputDropped = true
			p.child.Abandon()
		}
	case deadline:
		p.expired(m.waiter)
	case wrote:
		p.wrote(m)
	case judgeIt:
		p.judge()
	case runTimeout, runDrained:
		p.runTimer(m)
	case pause:
		p.paused++
		p.hold()
	case resume:
		p.paused--
		p.serve()
	case cancelWait:
		p.cancel(m.asker)
	case retire:
		ctx.Stop(ctx.Self())
	default:
		p.request(m)
	}
}

// begin notes what is to be done and who waits for it.
func (p *process) begin() {
	p.state, p.status, p.output, p.began = messages.StatePlanning, messages.NoStatus, newOutput(), time.Now()
	switch {
	case p.order.run != nil:
		p.beginRun()
	case p.order.NoWait:
		p.starter = p.ctx.Sender()
	default:
		p.initial = &waiter{left: messages.ExecYield(p.order.Yield), maxTokens: p.settings.tokens(p.order.MaxOutputTokens)}
		p.await(p.initial)
	}
	p.startPlan()
}

// start takes the slot, or the reason why there is none.
func (p *process) start(refused error) {
	switch {
	case p.state != messages.StatePlanning && p.state != messages.StateAwaitingApproval:
	case refused != nil:
		p.failed(refused)
	default:
		p.spawn()
	}
}

// spawn lets the spawner work, in a goroutine. Everything that can receive events is in place before.
func (p *process) spawn() {
	p.attempt++
	p.advance(messages.StateStarting)
	self, supervisor, id, sys := p.ctx.Self(), p.supervisor, p.id, p.ctx.System() // the goroutines must not touch the actor
	launch := p.launch
	launch.Events = func(e ptyio.Event) {
		var event any = childEvent{id, e} // made once for both
		switch e.(type) {
		case ptyio.Spawned, ptyio.Exited, ptyio.TreeEnded:
			sys.Send(supervisor, event)
		}
		sys.Send(self, event)
	}
	spawner := p.spawner
	p.ctx.Go(func(ctx context.Context) any {
		born := false
		defer func() { // also where a host's own spawner panics
			if !born {
				sys.Send(supervisor, unborn{id})
			}
		}()
		if _, err := spawner.Spawn(ctx, launch); err != nil {
			return spawnFailed{err}
		}
		born = true
		return nil
	})
}

// spawnerLeft ends a command whose spawner, a host's own, has ended its goroutine and so will never say what became of it.
func (p *process) spawnerLeft() {
	if p.state == messages.StateStarting {
		p.failed(&messages.Error{Code: messages.CodeSpawnFailed, Op: "spawn", Subject: p.id.String(),
			Detail: "the spawner ended its goroutine"})
	}
}

// advance moves the state forward and tells the supervisor.
func (p *process) advance(state messages.ProcessState) {
	p.state = state
	info := progress{id: p.id, state: state, dir: p.launch.Dir}
	if p.child != nil {
		info.pid = p.child.PID()
	}
	p.ctx.Send(p.supervisor, info)
}

// failed ends a command that never ran, because of err or because it was terminated.
func (p *process) failed(err error) {
	record := &messages.EndRecord{Cause: messages.CauseSpawnFailed, Status: messages.NoStatus, Tree: p.trees}
	p.noOutput = p.attempt > 1 // of an earlier attempt there may have been some
	if p.ending != nil {
		record.Cause, record.By, record.Detail = messages.CauseTerminated, p.ending.By, "before it began"
		if p.attempt > 1 {
			record.Detail = "before another attempt began"
		}
		err = endedError(p.id, record)
	} else {
		record.Detail = err.Error()
	}
	p.end(record, err)
}

func (p *process) origin() messages.Origin {
	return messages.Origin{Session: p.session, Process: p.id, Call: p.order.Call, At: time.Now()}
}

// endIfOver ends the process when the leader, its output, its tree and its input have ended.
func (p *process) endIfOver() {
	if p.state != messages.StateExited || !p.noOutput || !p.treeEnded || len(p.writes) > 0 {
		return
	}
	record := &messages.EndRecord{Cause: messages.CauseExited, Status: p.status, Tree: joined(p.trees, p.tree), Denial: p.denial,
		Duration: p.exitedAt.Sub(p.began)}
	switch {
	case p.lost != "":
		record.Cause, record.Detail = messages.CauseRuntimeFailure, p.lost
	case p.ending != nil:
		record.Cause, record.By = messages.CauseTerminated, p.ending.By
	case p.refusal != nil && p.refusal.Code == messages.CodeAborted:
		record.Cause, record.Detail = messages.CauseAborted, p.refusal.Detail
	case p.refusal != nil:
		record.Cause, record.Detail = messages.CauseSandboxDenied, p.refusal.Detail
	case p.denial != nil:
		record.Cause, record.Detail = messages.CauseSandboxDenied, p.denial.String()
	}
	if p.outputDropped && record.Detail == "" {
		record.Detail = "the end of its output was dropped: a lossless subscription did not take it"
	}
	p.end(record, nil)
}

// end answers everybody and hands the record to the supervisor, which publishes it. failure is what those get who waited
// for a command that never ran; they are told when the supervisor has been, so that they do not find it in its list.
func (p *process) end(record *messages.EndRecord, failure error) {
	p.closedOutput()
	p.state = messages.StateClosed
	if failure == nil {
		p.endRun(nil)
		p.answerEnd(record)
	}
	p.ctx.Send(p.supervisor, ended{p.id, record, p.output, p.told || failure != nil, p.bus, p.origin()})
	p.output = output{}
	if failure != nil {
		p.endRun(failure)
		p.tell(p.starter, failure)
		for len(p.waiters) > 0 {
			p.answer(p.waiters[0], failure)
		}
	}
	// What is left of the actor may be kept for a while, and commands can be long.
	p.launch, p.command, p.snapshot, p.plan = ptyio.Launch{}, policy.Request{}, policy.Snapshot{}, policy.Plan{}
	p.order = order{ExecCommand: messages.ExecCommand{Call: p.order.Call}}
}

// leave is the actor's own end. It comes before the process's only if the supervisor is gone, so that nobody else is left
// to answer and to say the last word.
func (p *process) leave() {
	if p.state == "" || p.state == messages.StateClosed {
		return // it has not begun, or has ended
	}
	if p.child != nil {
		p.child.Abandon()
	}
	failure := &messages.Error{Code: messages.CodeClosed, Op: "use process", Subject: p.id.String(), Detail: "its session has ended"}
	askers := []*kernel.PID{p.starter, p.runner}
	for _, w := range slices.Concat(p.waiters, p.writes) {
		askers = append(askers, w.asker)
	}
	answerAll(p.ctx, askers, failure)
	p.bus.Publish(execEnded(p.origin(), &messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: p.status,
		Detail: failure.Detail}, p.output))
}

// execEnded is the event of an end.
func execEnded(origin messages.Origin, record *messages.EndRecord, out output) messages.ExecEnded {
	return messages.ExecEnded{Origin: origin, EndRecord: *record, Total: out.log.Total(),
		Transcript: out.log.Transcript(ptyio.DefaultBufferSize)}
}
