package process

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// attempt is one spawn of the command, with the known facts about its child. Only the kernel and the spawner determine the
// order of the facts.
type attempt struct {
	number   int
	callOff  context.CancelFunc // says that the spawner need not go on
	calls    *childCalls        // on the child; nil before it is born
	pid      int
	bornAt   time.Time // the start of the program
	from     int64     // bytes of output before it
	enforced *messages.Enforcement
	exit     *ptyio.Exited // nil: the leader lives
	exitedAt time.Time

	background *messages.Background
	drained    bool // everything that the leader wrote is here
	closed     bool // no output can come any more
	dropped    bool // the end of the output was discarded: a lossless subscription did not take it
	treeEnded  bool
	forbidden  bool // an execution was refused
	tree       messages.TreeReport

	early early // events that a host's own spawner has reported before the birth
}

// early has the events of a child that is not born yet: batches of output up to maxEarly, and one of every other kind. Output after
// them is lost, and counted.
type early struct {
	events  []protocol.ChildEvent
	outputs int
	lost    int64
	lostAt  int // the number of events before the loss
}

const maxEarly = 256

// keepEarly keeps an event of a child that is not born yet. It reports whether it did.
func (a *attempt) keepEarly(m protocol.ChildEvent) bool {
	if a == nil || m.Attempt != a.number || a.calls != nil {
		return false
	}
	e := &a.early
	output, is := m.Event.(ptyio.Output)
	switch {
	case !is && e.has(m.Event):
		return false
	case is && e.outputs == maxEarly:
		if e.lost == 0 {
			e.lostAt = len(e.events)
		}
		if !e.has(ptyio.Closed{}) {
			e.lost += int64(len(output.Bytes))
		}
		return false
	case is:
		e.outputs++
	}
	e.events = append(e.events, m)
	return true
}

// has reports whether an event of the same kind is kept.
func (e *early) has(event ptyio.Event) bool {
	return slices.ContainsFunc(e.events, func(m protocol.ChildEvent) bool { return reflect.TypeOf(m.Event) == reflect.TypeOf(event) })
}

// catchUp handles the events that were reported before the birth.
func (p *process) catchUp() {
	e := p.attempt.early
	p.attempt.early = early{}
	for i := 0; i <= len(e.events); i++ {
		if i == e.lostAt && e.lost > 0 {
			p.flushAll() // the total then has all that came before
			p.output.Skip(ptyio.Position{Offset: p.output.Log.Total() + e.lost})
		}
		if i < len(e.events) {
			p.internal(e.events[i])
		}
	}
}

// over reports whether nothing is left of the attempt.
func (a *attempt) over() bool { return a.exit != nil && a.closed && a.treeEnded }

// settled reports whether everything that the leader wrote has arrived, and the fate of its children is known.
func (a *attempt) settled() bool {
	return a.exit != nil && a.drained && (a.background != nil || a.treeEnded)
}

// spawn begins the next attempt.
func (p *process) spawn() {
	number := 1
	if p.attempt != nil {
		number = p.attempt.number + 1
	}
	p.attempt = &attempt{number: number}
	p.tellProgress()
	p.attempt.callOff = p.startSpawning(number)
}

// born notes the child of the attempt.
func (p *process) born(spawned ptyio.Spawned, pid int) {
	a := p.attempt
	a.calls, a.pid, a.bornAt, a.enforced = newChildCalls(spawned.Child), pid, time.Now(), spawned.Enforced
	if p.decision.launch.TTY {
		before := p.size
		if p.size = p.decision.launch.Size.OrDefault(); a.number > 1 {
			p.output.Resize(before, p.size)
		}
	}
	if a.number == 1 { // AttemptEnded has announced the later attempts
		d := p.decision
		p.Bus.Publish(messages.ExecStarted{Origin: p.origin(), Argv: d.request.Argv, Dir: d.launch.Dir, TTY: d.launch.TTY, Size: p.size, PID: pid,
			Enforced: a.enforced})
	}
	a.from = p.output.Log.Total()
	if p.watchers > 0 {
		p.tellWatched(func(child ptyio.Watched) { child.Watch(true) })
	}
	if p.ending.wanted { // while the spawner was at work
		p.endTree(p.grace(messages.Terminate{}))
	}
	p.giveAgain()
	p.sendHeld()
}

// answerStart answers a call that waits only for the start.
func (p *process) answerStart() {
	if c := p.asker(); c != nil && c.kind == startCall {
		p.ctx.Send(p.supervisor, protocol.Yielded{Process: p.id})
		p.finish(c)
	}
}

// learn notes an event of a child. It reports whether that was new: a host's own spawner may report an event twice.
func (p *process) learn(event ptyio.Event) bool {
	a := p.attempt
	switch e := event.(type) {
	case ptyio.Output:
		if a.closed {
			e.Release()
			return false
		}
		p.received(e)
	case ptyio.Background:
		a.background = &messages.Background{Count: e.Count, Kept: p.decision.launch.OnLeaderExit == messages.LeaderExitKeepsTree && p.ending.first == nil}
	case ptyio.Drained:
		a.drained = true
		p.flushAll()
	case ptyio.Closed:
		a.closed, a.drained = true, true // a host's own spawner may leave out the other event
		p.flushAll()
	case ptyio.TreeEnded:
		a.tree, a.treeEnded = e.TreeReport, true
		p.limitOutput()
	default:
		return false
	}
	return true
}

// lastOutput is how long output may still be taken after the end of a tree that somebody asked to end.
const lastOutput = 2 * time.Second

// limitOutput bounds the wait for a lossless subscriber that does not read, once somebody has asked for the end of the
// process. A process that ended by itself waits for its readers.
func (p *process) limitOutput() {
	if a := p.attempt; a != nil && p.ending.wanted && a.treeEnded && !a.closed {
		p.ctx.After(lastOutput, dropOutput{a.number})
	}
}

// timeIsUp handles the bounds on the end of an attempt. It reports whether the message was one of them.
func (p *process) timeIsUp(message any) bool {
	switch m := message.(type) {
	case dropOutput:
		p.drop(m)
	case endOverdue:
		p.overdue(m)
		p.step()
	case inputOverdue:
		if m.attempt == p.attempt.number {
			p.loseWrites()
		}
	default:
		return false
	}
	return true
}

// drop discards the rest of the output.
func (p *process) drop(m dropOutput) {
	if a := p.attempt; a.number == m.attempt && !a.closed {
		a.dropped = true
		shared.Abandon(a.calls.child)
	}
}

// endTree ends the living processes of the attempt.
func (p *process) endTree(grace time.Duration) { p.attempt.calls.endTree(p, grace) }

// grace is the time that a tree gets between SIGTERM and SIGKILL: no more than maxPruneGrace if it makes room for another
// command.
func (p *process) grace(m messages.Terminate) time.Duration {
	grace := ptyio.DefaultGrace
	switch {
	case m.Grace != nil:
		grace = *m.Grace
	case p.command.Grace != nil:
		grace = *p.command.Grace
	}
	if m.By == messages.TerminatedByPrune {
		grace = min(grace, MaxPruneGrace)
	}
	return grace
}

// MaxPruneGrace bounds how long a new command waits for the slot of another.
const MaxPruneGrace = 2 * time.Second
