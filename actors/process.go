package actors

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// state is where a process stands. States only move forward.
type state int

const (
	starting state = iota // the spawner is at work
	running               // the leader lives
	exited                // the leader is dead; output or tree may not be
	closed                // output and tree have ended; ExecEnded is published
)

func (s state) String() string {
	return [...]string{"starting", "running", "exited", "closed"}[s]
}

// Surroundings are what all sessions of a runtime share. They are not changed.
type Surroundings struct {
	Bus     *bus.Bus
	Spawner ptyio.Spawner
	Logger  *slog.Logger
}

// surroundings are the same for the processes of one session.
type surroundings struct {
	session messages.SessionID
	bus     *bus.Bus
	spawner ptyio.Spawner
	logger  *slog.Logger
}

func (s Surroundings) of(session messages.SessionID) *surroundings {
	return &surroundings{session: session, bus: s.Bus, spawner: s.Spawner, logger: s.Logger.With("session", session)}
}

// process is the actor of one command. It owns the child, its output and those who wait for it.
type process struct {
	*surroundings
	ctx        *Context
	id         messages.ProcessID
	supervisor *PID
	command    messages.ExecCommand
	launch     ptyio.Launch
	state      state
	began      time.Time
	child      ptyio.Child
	output     output
	waiters    []*waiter
	ending     *messages.Terminate // the first request to end it
	enders     []*PID              // who waits for the end

	status    messages.ExitStatus
	lost      error // the exit status could not be learnt
	lasted    time.Duration
	drained   bool
	noOutput  bool // the output has ended
	tree      messages.TreeReport
	treeEnded bool
}

// Messages between a process and its supervisor.
type (
	// begin starts the actor's one command; its sender is the caller.
	begin struct {
		id      messages.ProcessID
		command messages.ExecCommand
		launch  ptyio.Launch
	}
	// born tells the supervisor of the child, so that it can end it if the actor crashes.
	born struct {
		id    messages.ProcessID
		child ptyio.Child
	}
	// ended tells it of the end.
	ended struct {
		id     messages.ProcessID
		record messages.EndRecord
	}
	// retire is the answer: nothing more will be routed to this actor.
	retire struct{}
)

// Messages of a process to itself.
type (
	spawnFailed struct{ err error }
	flushHeld   struct{ stream messages.Stream }
)

// receive is the actor's behaviour. What a state does not allow is refused by the handlers.
func (p *process) receive(ctx *Context) {
	p.ctx = ctx
	switch m := ctx.Message().(type) {
	case Started, Terminated:
	case Stopping:
		p.leave()
	case begin:
		p.begin(m)
	case spawnFailed:
		p.failed(m.err)
	case ptyio.Event:
		p.childEvent(m)
	case flushHeld:
		p.publish(m.stream, p.output.flush(m.stream), nil)
	case deadline:
		p.finishWaiters(func(w *waiter) bool { return w == m.waiter })
	case retire:
		ctx.Stop(ctx.Self())
	default:
		p.request(m)
	}
}

// begin starts the spawner in a goroutine. Everything that can receive events is in place before.
func (p *process) begin(m begin) {
	p.id, p.command, p.launch, p.began = m.id, m.command, m.launch, time.Now()
	p.output = newOutput()
	p.wait(m.command.Yield)
	self, sys := p.ctx.Self(), p.ctx.sys
	launch := m.launch
	launch.Events = func(e ptyio.Event) { sys.Send(self, e) }
	p.ctx.Go(func(ctx context.Context) any {
		if _, err := p.spawner.Spawn(ctx, launch); err != nil {
			return spawnFailed{err}
		}
		return nil
	})
}

// failed ends a command that never ran.
func (p *process) failed(err error) {
	p.status = messages.NoStatus
	p.end(messages.EndRecord{Cause: messages.CauseSpawnFailed, Status: p.status, Detail: err.Error()})
	for _, w := range p.waiters {
		w.timer.Cancel()
		p.ctx.Send(w.asker, err)
	}
	p.waiters = nil
}

func (p *process) childEvent(event ptyio.Event) {
	switch e := event.(type) {
	case ptyio.Spawned:
		p.spawned(e.Child)
	case ptyio.Output:
		credit := bus.NewCredit(e.Release)
		p.output.split(e.Stream, e.Bytes, func(stream messages.Stream, delta []byte) { p.publish(stream, delta, credit) })
		credit.Release()
		p.holdBack(e.Stream)
	case ptyio.Exited:
		p.state, p.status, p.lost, p.lasted = exited, e.Status, e.Lost, time.Since(p.began)
		p.bus.Publish(messages.ExecExited{Origin: p.origin(), Status: e.Status})
	case ptyio.Drained:
		p.drained = true
		p.flushAll()
		p.finishWaiters(func(*waiter) bool { return true })
	case ptyio.Closed:
		p.noOutput = true
		p.flushAll()
		p.bus.Publish(messages.OutputClosed{Origin: p.origin(), Total: p.output.log.Total()})
		p.endIfOver()
	case ptyio.TreeEnded:
		p.tree, p.treeEnded = e.TreeReport, true
		p.endIfOver()
	}
}

func (p *process) spawned(child ptyio.Child) {
	p.child, p.state = child, running
	p.ctx.Send(p.supervisor, born{p.id, child})
	p.bus.Publish(messages.ExecStarted{Origin: p.origin(), Argv: p.launch.Argv, Dir: p.launch.Dir, TTY: p.launch.TTY, PID: child.PID()})
	if p.ending != nil { // it was asked for while the spawner was at work
		child.EndTree(p.grace())
	}
}

func (p *process) origin() messages.Origin {
	return messages.Origin{Session: p.session, Process: p.id, Call: p.command.Call, At: time.Now()}
}

// publish gives a delta its number and place, remembers it and shows it to everyone.
func (p *process) publish(stream messages.Stream, delta []byte, credit *bus.Credit) {
	if len(delta) == 0 {
		return
	}
	seq, offset := p.output.keep(stream, delta)
	p.bus.PublishOutput(messages.OutputDelta{Origin: p.origin(), Stream: stream, Seq: seq, Offset: offset, Bytes: delta}, credit)
}

// holdBack sees to it that the beginning of a character does not wait for its end for ever.
func (p *process) holdBack(stream messages.Stream) {
	if p.output.held(stream) {
		p.output.timer.Cancel()
		p.output.timer = p.ctx.After(ptyio.MaxHold, flushHeld{stream})
	}
}

func (p *process) flushAll() {
	for _, stream := range []messages.Stream{messages.Stdout, messages.Stderr, messages.PTY} {
		p.publish(stream, p.output.flush(stream), nil)
	}
}

// endIfOver closes the process when the leader, the output and the tree have all ended.
func (p *process) endIfOver() {
	if p.state != exited || !p.noOutput || !p.treeEnded {
		return
	}
	record := messages.EndRecord{Cause: messages.CauseExited, Status: p.status, Tree: p.tree, Duration: p.lasted}
	switch {
	case p.lost != nil:
		record.Cause, record.Detail = messages.CauseRuntimeFailure, p.lost.Error()
	case p.ending != nil:
		record.Cause, record.By = messages.CauseTerminated, p.ending.By
	}
	p.finishWaiters(func(*waiter) bool { return true })
	p.end(record)
}

// end says the last word, once.
func (p *process) end(record messages.EndRecord) {
	p.state = closed
	p.bus.Publish(messages.ExecEnded{Origin: p.origin(), EndRecord: record, Total: p.output.log.Total()})
	answerAll(p.ctx, p.enders, &record)
	p.enders = nil
	p.ctx.Send(p.supervisor, ended{p.id, record})
}

// leave is the actor's own end. If it comes before the child's, nobody is left to receive.
func (p *process) leave() {
	if p.state != closed && p.child != nil {
		p.child.Abandon()
	}
}

// request handles what a caller asks of a process.
func (p *process) request(message any) {
	if p.state == closed {
		p.ctx.Respond(&messages.Error{Code: messages.CodeProcessEnded, Op: "use process", Subject: p.id.String(), Detail: "the process has ended"})
		return
	}
	if m, ok := message.(messages.Terminate); ok {
		p.terminate(m)
		return
	}
	if p.child == nil {
		p.ctx.Respond(&messages.Error{Code: messages.CodeWrongState, Op: "use process", Subject: p.id.String(),
			Detail: "the process is " + p.state.String(), Hint: "wait for exec_started"})
		return
	}
	switch m := message.(type) {
	case messages.WriteInput:
		p.write(m)
	case messages.CloseStdin:
		reply := p.replyLater()
		p.child.CloseStdin(func(err error) { reply(outcome(err)) })
	case messages.Resize:
		p.ctx.Respond(outcome(p.child.Resize(m.Size)))
	case messages.Signal:
		scope := ptyio.Foreground
		if m.Tree {
			scope = ptyio.Tree
		}
		p.ctx.Respond(outcome(p.child.Signal(syscall.Signal(m.Number), scope)))
	}
}

func (p *process) write(m messages.WriteInput) {
	patience := m.Patience
	if patience <= 0 {
		patience = messages.DefaultPatience
	}
	reply := p.replyLater()
	p.child.Write(m.Bytes, time.Now().Add(patience), func(taken int, err error) {
		reply(messages.Written{Taken: taken, Err: asError("write", err)})
	})
}

// replyLater is for answers that come from another goroutine.
func (p *process) replyLater() func(any) {
	asker, sys := p.ctx.Sender(), p.ctx.sys
	return func(reply any) {
		if asker != nil {
			sys.Send(asker, reply)
		}
	}
}

func (p *process) grace() time.Duration {
	if p.ending.Grace > 0 {
		return p.ending.Grace
	}
	if p.command.Grace > 0 {
		return p.command.Grace
	}
	return ptyio.DefaultGrace
}

func (p *process) terminate(m messages.Terminate) {
	if m.By == "" {
		m.By = messages.ByUser
	}
	// A leader that has exited by itself was not terminated, whatever happens to its tree now.
	if p.ending == nil && p.state != exited {
		p.ending = &m
	}
	if asker := p.ctx.Sender(); asker != nil {
		p.enders = append(p.enders, asker)
	}
	if p.child != nil {
		p.child.EndTree(max(m.Grace, 0))
	}
}

// outcome turns an error of an operation without a result into its reply.
func outcome(err error) any {
	if err == nil {
		return messages.Done{}
	}
	return asError("", err)
}

// asError makes any error one that can be sent.
func asError(op string, err error) *messages.Error {
	if err == nil {
		return nil
	}
	if typed, ok := errors.AsType[*messages.Error](err); ok {
		return typed
	}
	return &messages.Error{Code: messages.CodeRuntimeFailure, Op: op, Detail: err.Error()}
}
