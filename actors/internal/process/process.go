package process

import (
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/pattern"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// process is the actor of one command. It owns the child, its output and the calls that wait for it.
type process struct {
	*shared.Session
	ctx        *system.Context
	id         messages.ProcessID
	supervisor *system.PID
	runtime    *system.PID
	command    shared.Command
	settings   *shared.Settings
	state      state

	decision *decision // the decision about the command; nil before the plan is made
	attempt  *attempt  // the current one; nil before the first
	past     messages.TreeReport
	output   output.Feed
	calls    []*call // that wait, in the order in which they came
	paused   int     // PauseYields not yet resumed
	input    input
	keyboard keyboard
	watchers int // who see the screen of the terminal
	looking  looking
	spooling *spooling // nil where no output goes to a file
	outputAt time.Time // when output came last
	run      *run      // of a run to the end; nil otherwise
	executed executed
	ending   ending

	size      messages.Size    // of the terminal; zero without one
	consulted time.Time        // when a verdict was asked for last
	asked     time.Time        // when questions about hosts began; zero if none is open
	waited    time.Duration    // for a person
	latch     protocol.Latch   // of the approval actor, if it was asked
	denial    *messages.Denial // the last denial by a sandbox
	// blockedTold is how many of its blocked connections results have named.
	blockedTold int
	refusal     *messages.Error // why there was no other attempt
	told        bool            // a caller was told of the exit
	// outputTold says that OutputClosed was published.
	outputTold bool
}

// Config is what a process is started with.
type Config struct {
	Session  *shared.Session
	Runtime  *system.PID // which counts the starts that hang
	Process  messages.ProcessID
	Command  shared.Command
	Settings *shared.Settings
	Paused   int // pauses that hold the clocks
}

// Start starts the actor of a command as a child of its session. Begin begins the command.
func Start(session *system.Context, c Config) *system.PID {
	p := &process{Session: c.Session, supervisor: session.Self(), runtime: c.Runtime, id: c.Process, command: c.Command, settings: c.Settings, paused: c.Paused}
	return session.Spawn("process", p.receive)
}

// ending holds the requests to end a process.
type ending struct {
	wanted bool                // somebody asked for the end, even if only after the leader's exit
	first  *messages.Terminate // the first request before the leader's exit, which is the reported one
}

// state is the state of a process, with the facts that matter only there. States only move forward, by advance.
type state interface {
	name() messages.ProcessState
	// enter is called once, when the state begins.
	enter(p *process)
	// receive handles a message that belongs to this state; false means that the message does not.
	receive(p *process, message any) bool
	// terminate begins the end of the process.
	terminate(p *process, m messages.Terminate)
	// unasked is called when the call that asked for the command was cancelled.
	unasked(p *process)
}

// advance moves to the next state. Nothing else changes the state, except close.
func (p *process) advance(next state) {
	p.state = next
	switch next.(type) {
	case *planning: // as the supervisor supposes
	case *starting:
		p.ctx.Send(p.supervisor, protocol.WantSlot{Progress: p.progress()})
	default:
		p.tellProgress()
	}
	next.enter(p)
}

// tellProgress sends the supervisor the facts for a listing.
func (p *process) tellProgress() { p.ctx.Send(p.supervisor, p.progress()) }

func (p *process) progress() protocol.Progress {
	info := protocol.Progress{Process: p.id, State: p.state.name(), Size: p.size, Keyboard: p.keyboard.holder}
	if p.decision != nil {
		info.Dir = p.decision.launch.Dir
		info.Repeatable = p.decision.launch.Sandbox != nil && p.decision.plan.OnDenial != policy.Return
	}
	if p.attempt != nil {
		info.PID, info.Attempt, info.Enforced = p.attempt.pid, p.attempt.number, p.attempt.enforced
	}
	return info
}

func (p *process) receive(ctx *system.Context) {
	p.ctx = ctx
	p.handle(ctx.Message())
}

// handle handles the messages that all states treat alike, and leaves the rest to the state.
func (p *process) handle(message any) {
	switch m := message.(type) {
	case system.Started, system.Terminated:
	case system.Stopping:
		p.leave()
	case system.Crashing:
		p.handOver(m.Message)
	case protocol.Begin:
		p.begin(m.Caller)
	case protocol.Request:
		p.request(m)
	case protocol.CancelCall:
		p.cancel(m.Call)
	case protocol.CancelCalls:
		p.cancelCalls()
	case deadline:
		p.expired(m.call)
	case protocol.Pause:
		p.hold()
	case protocol.Resume:
		p.release()
	case protocol.AskedAbout:
		p.askedAbout(m.Open)
	case seen:
		p.seen(m)
	case flushHeld:
		p.output.Flush(m.stream)
		p.serveReaders()
		p.compareOutput()
	case wrote:
		p.wrote(m)
		p.happened()
	case compared:
		p.compared(m)
	case compareNow:
		p.compareNow(m.call)
	case quietOver:
		p.quietOver(m.call)
	case looked:
		p.looked(m)
	case ports:
		p.foundPorts(m)
	case runTimeout:
		p.runTimedOut()
	case keyboardIdle:
		p.keyboardIdle(m.id)
	case jobDone:
		p.jobDone(m)
	case spooled:
		p.spoolWritten(m)
	case lookedUp:
		p.lookedUp(m)
	case protocol.Retire:
		p.ctx.Stop(p.ctx.Self())
	case protocol.Slot, protocol.StartWaits, protocol.Verdict, protocol.ChildEvent, planned, spawnFailed, judgeNow, dropOutput, endOverdue,
		inputOverdue, runDrained, system.WorkFailed:
		p.internal(message)
	default:
		p.ctx.Unexpected()
	}
}

// internal hands a message to the state. A message that the state does not take is from an attempt that is over, or is
// too late; it is discarded.
func (p *process) internal(message any) {
	if p.state != nil && p.state.receive(p, message) {
		return
	}
	if owner, owns := message.(system.Discarder); owns {
		owner.Discard()
	}
}

// begin notes the order and the caller that waits for it.
func (p *process) begin(from protocol.Caller) {
	p.output = p.newOutput()
	c := &call{Caller: from, kind: execCall, budget: p.settings.Budget(p.command.MaxOutputTokens, p.command.MaxOutputBytes)}
	switch {
	case p.command.Run != nil:
		c.kind, c.clock.endless = runCall, true
		p.run = newRun(p.command.Run)
		p.armRun()
		p.output.Add(p.run.keep)
	case p.command.StartOnly:
		c.kind, c.clock.endless = startCall, true
	default:
		c.clock.left = messages.ExecYield(p.command.Yield)
		if c.until = p.newCondition(p.command.Until); c.until.patient() {
			c.clock.left = messages.UntilYield(p.command.Yield, p.settings.LongestPoll)
		}
	}
	p.await(c)
	c.clock.run(p.ctx, c.Call)
	p.watch(c)
	p.advance(&planning{})
}

func (p *process) origin() messages.Origin {
	return messages.Origin{Session: p.SessionID, Process: p.id, Call: p.command.Call, At: time.Now()}
}

func (p *process) endEvent() protocol.EndEvent {
	return protocol.EndEvent{Bus: p.Bus, Origin: p.origin(), Latch: p.latch}
}

// handOver hands the obligations of a crashing actor to the supervisor, which also knows the child.
func (p *process) handOver(at any) {
	p.endLooks()
	p.keyboardReturned(messages.ReturnedAtEnd)
	p.spooling.leave()
	var child ptyio.Child
	if p.attempt != nil && p.attempt.calls != nil {
		child = p.attempt.calls.child
	}
	if m, told := at.(protocol.ChildEvent); told {
		m.Release()
		if event, born := m.Event.(ptyio.Spawned); born {
			child = event.Child
		}
	}
	if _, closed := p.state.(*closed); !closed && p.state != nil {
		p.ctx.Send(p.supervisor, protocol.Handover{Process: p.id, Output: p.output.Output, Event: p.endEvent(), Child: child})
	}
}

// leave is called when the actor stops. The process has not ended then only if the supervisor is gone. In that case the
// supervisor has answered the calls, and nobody else can publish the end.
func (p *process) leave() {
	p.endLooks()
	if _, over := p.state.(*closed); over || p.state == nil {
		return
	}
	if p.attempt != nil && p.attempt.calls != nil {
		shared.Abandon(p.attempt.calls.child)
	}
	p.keyboardReturned(messages.ReturnedAtEnd)
	p.endEvent().Publish(&messages.EndRecord{Cause: messages.CauseRuntimeFailure, Status: p.status(), Detail: "its session has ended"}, p.output.Output)
	p.spooling.leave()
	p.output.Close()
}

// status is how the leader exited; it is none while that is unknown, or will stay unknown.
func (p *process) status() messages.ExitStatus {
	if p.attempt == nil || p.attempt.exit == nil {
		return messages.StatusNone()
	}
	return p.attempt.exit.Status
}

// reached is the limit at which the leader was ended; empty for none.
func (p *process) reached() messages.Limit {
	if p.attempt == nil || p.attempt.exit == nil {
		return ""
	}
	return p.attempt.exit.Limit
}

// lost says why there is no status although the leader has ended.
func (p *process) lost() string {
	if p.attempt == nil || p.attempt.exit == nil || p.attempt.exit.Lost == nil {
		return ""
	}
	return p.attempt.exit.Lost.Error()
}

// From a process to itself, by timers and work.
type (
	deadline    struct{ call protocol.CallID }
	planned     struct{ *decision }
	spawnFailed struct {
		attempt int
		err     error
	}
	flushHeld struct{ stream messages.Stream }
	// compared says whether output matches the pattern of a call.
	compared struct {
		call  protocol.CallID
		by    *pattern.Matcher
		end   int64 // of the match
		found bool
		took  time.Duration
	}
	compareNow struct{ call protocol.CallID }
	quietOver  struct{ call protocol.CallID }
	// ports says where a child listens.
	ports struct {
		attempt int
		found   []ptyio.Listener
		err     error
		cost    time.Duration
	}
	// looked says what a child waits for.
	looked struct {
		attempt int
		written uint64 // the newest write when the look began
		awaited *messages.AwaitedInput
		err     error
		cost    time.Duration
	}
	dropOutput   struct{ attempt int }
	judgeNow     struct{ attempt int }
	runTimeout   struct{}
	runDrained   struct{}
	inputOverdue struct{ attempt int }
	keyboardIdle struct{ id messages.KeyboardID }
	// endOverdue says that a child which was asked to end, or was abandoned after that, has not ended in time.
	endOverdue struct {
		attempt   int
		abandoned bool
	}
	// wrote says how much of a write a child took.
	wrote struct {
		write uint64
		taken ptyio.Taken
		err   error
	}
	// jobDone is the result of a call to a host's own child. It comes twice for a call that returns late.
	jobDone struct {
		attempt, job int
		err          error
	}
)
