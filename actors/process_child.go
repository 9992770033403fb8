package actors

import (
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// childEvent is what happens to the child.
func (p *process) childEvent(event ptyio.Event) {
	switch e := event.(type) {
	case ptyio.Spawned:
		p.spawned(e.Child)
	case ptyio.Output:
		p.received(e)
	case ptyio.Exited:
		if p.mayBeDenied(e) {
			p.suspected(e)
		} else {
			if p.launch.Sandbox != nil {
				p.denial = e.Denial
			}
			p.exited(e, time.Now())
			p.closedOutput()
		}
	case ptyio.Background:
		p.background = &messages.Background{Count: e.Count, Kept: p.launch.OnLeaderExit == messages.KeepTree && p.ending == nil}
		p.answerExit()
	case ptyio.Drained:
		p.drained = true
		p.flushAll()
		p.judge()
		p.answerExit()
	case ptyio.Closed:
		p.noOutput = true
		p.flushAll()
		p.closedOutput()
		p.endIfOver()
		p.tryAgain()
	case ptyio.TreeEnded:
		p.tree, p.treeEnded = e.TreeReport, true
		p.answerExit()
		p.limitOutput()
		p.endIfOver()
		p.tryAgain()
	}
}

// closedOutput tells that no more output can come, once, and when no further attempt can.
func (p *process) closedOutput() {
	last := p.launch.Sandbox == nil || p.plan.OnDenial == policy.Return || p.state == messages.StateExited || p.endWanted
	if p.noOutput && last && !p.closeTold {
		p.closeTold = true
		p.bus.Publish(messages.OutputClosed{Origin: p.origin(), Total: p.output.log.Total()})
	}
	p.answerRun()
}

// lastOutput is how long after the end of a tree that somebody asked for its output may still be taken.
const lastOutput = 2 * time.Second

// limitOutput sees to it that a lossless subscriber who does not read cannot keep a process from ending that somebody
// wants to end. One that ended by itself waits for its readers.
func (p *process) limitOutput() {
	if p.endWanted && p.treeEnded && !p.noOutput {
		p.ctx.After(lastOutput, dropOutput{})
	}
}

func (p *process) spawned(child ptyio.Child) {
	p.child, p.spawnedAt = child, time.Now()
	p.advance(messages.StateRunning)
	if p.attempt == 1 { // AttemptEnded has announced the others
		p.bus.Publish(messages.ExecStarted{Origin: p.origin(), Argv: p.command.Argv, Dir: p.launch.Dir, TTY: p.launch.TTY, PID: child.PID()})
	}
	if p.starter != nil {
		p.tell(p.starter, &messages.Result{Process: p.id, Call: p.order.Call, Running: true, Status: messages.NoStatus})
		p.starter = nil
	}
	if p.ending != nil { // it was asked for while the spawner was at work
		child.EndTree(p.grace(*p.ending))
	}
}

func (p *process) exited(e ptyio.Exited, at time.Time) {
	p.status, p.exitedAt = e.Status, at
	if e.Lost != nil {
		p.lost = e.Lost.Error()
	}
	p.advance(messages.StateExited)
	p.bus.Publish(messages.ExecExited{Origin: p.origin(), Status: e.Status})
	p.exitedRun()
}

// received takes a batch. Its credit goes back when everyone who must not miss it has it.
func (p *process) received(batch ptyio.Output) {
	credit := bus.NewCredit(batch.Release)
	emitted := false
	p.output.split(batch.Stream, batch.Bytes, func(delta []byte) {
		emitted = true
		p.publish(batch.Stream, delta, credit)
	})
	batch.Looked()
	credit.Release()
	p.holdBack(batch.Stream, emitted)
}

// publish gives a delta its number and place, remembers it and shows it to everyone.
func (p *process) publish(stream messages.Stream, delta []byte, credit *bus.Credit) {
	if len(delta) == 0 {
		return
	}
	p.run.keep(stream, delta)
	seq, offset := p.output.keep(stream, delta)
	p.telemetry.output(len(delta))
	p.bus.PublishOutput(messages.OutputDelta{Origin: p.origin(), Stream: stream, Seq: seq, Offset: offset,
		Bytes: append(make([]byte, 0, len(delta)), delta...)}, credit)
}

// holdBack sees to it that the beginning of a character does not wait for its end for ever. A batch that was held as a
// whole does not prolong the wait.
func (p *process) holdBack(stream messages.Stream, emitted bool) {
	timer := p.output.holding[stream]
	if timer != nil && (emitted || !p.output.held(stream)) {
		timer.Cancel()
		timer = nil
		delete(p.output.holding, stream)
	}
	if timer == nil && p.output.held(stream) {
		p.output.holding[stream] = p.ctx.After(ptyio.MaxHold, flushHeld{stream})
	}
}

// flush publishes what is held back of a stream.
func (p *process) flush(stream messages.Stream) {
	if s := p.output.splitters[stream]; s != nil {
		p.output.holding[stream].Cancel()
		delete(p.output.holding, stream)
		p.publish(stream, s.Flush(), nil)
	}
}

func (p *process) flushAll() {
	for _, stream := range []messages.Stream{messages.Stdout, messages.Stderr, messages.PTY} {
		p.flush(stream)
	}
}
