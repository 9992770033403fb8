package process

import (
	"cmp"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// callKind is the event that a call waits for.
type callKind int

const (
	startCall callKind = iota // for the start of the command it asked for
	execCall                  // for output of the command it asked for, its end, or its yield
	runCall                   // for the end of the command it asked for
	pollCall                  // for output, the end, or its yield
	writeCall                 // for the writes before it, and then like a pollCall
	readCall                  // for output after a position
	waitCall                  // for the leader's exit, or for another reason, on behalf of a wait
	jobCall                   // for an action on the child, such as a resize
)

// call is one caller that waits inside a process. Each has its own clock and answers at its yield, independently of the
// others. The first to answer takes the output that there is.
type call struct {
	protocol.Caller
	kind   callKind
	began  time.Time
	clock  clock
	budget shared.Budget       // of the answer's text
	last   bool                // its time is over, and its clock was prolonged
	extras int                 // how often its clock was prolonged
	seen   int64               // the output that there was then, in bytes
	write  *write              // of a writeCall
	read   messages.ReadOutput // of a readCall
	looks  func()              // of a readCall that is being looked up: ends that
	op     string              // of a jobCall, for errors
	// Of a waitCall: which item of its wait it is, and whether the wait knows that nothing is met yet.
	item        int
	saidNothing bool
	until       *condition // what ends the call early; nil for nothing
}

// waits reports whether the call's answer is a Result, with the output that has not been taken yet.
func (c *call) waits() bool {
	return c.kind == execCall || c.kind == pollCall || c.kind == writeCall && !c.write.untilTaken
}

// asked reports whether it is the call that asked for the command.
func (c *call) asked() bool { return c.kind == startCall || c.kind == execCall || c.kind == runCall }

// await adds a waiting call.
func (p *process) await(c *call) {
	c.began = time.Now()
	if p.paused > 0 {
		c.clock.hold()
	}
	p.calls = append(p.calls, c)
}

// find gives the call with an id; nil if it does not wait any more.
func (p *process) find(id protocol.CallID) *call {
	for _, c := range p.calls {
		if c.Call == id {
			return c
		}
	}
	return nil
}

// asker is the call that asked for the command, as long as it waits.
func (p *process) asker() *call {
	for _, c := range p.calls {
		if c.asked() {
			return c
		}
	}
	return nil
}

// answer ends a call. It leaves alone a call that does not wait any more.
func (p *process) answer(c *call, reply any) {
	i := slices.Index(p.calls, c)
	if i < 0 {
		return
	}
	c.clock.stop()
	c.until.stop()
	if c.looks != nil {
		c.looks()
	}
	p.calls = slices.Delete(p.calls, i, i+1)
	p.reply(c.Caller, reply)
	if c.until != nil { // perhaps nobody wants a look any more
		p.lookLater()
		p.lookForPorts()
	}
	if c.write != nil {
		if failure, failed := reply.(error); failed && c.Asker == nil { // it was answered before, and a later answer says so
			c.write.err = cmp.Or(c.write.err, protocol.AsError("write", failure))
		}
		if c.Asker == nil && c.write.taken < len(c.write.bytes) {
			p.input.note(c.write)
		}
		p.nextWrite(c)
	}
}

// finish ends a call with the result that it waited for.
func (p *process) finish(c *call) {
	if p.find(c.Call) == nil {
		return // a call that does not wait any more takes no output
	}
	switch c.kind {
	case startCall:
		p.answer(c, &messages.Result{Process: p.id, Call: p.command.Call, Running: true, Status: messages.StatusNone()})
	case runCall:
		p.answer(c, p.run.result(p))
	case readCall:
		if c.looks == nil { // otherwise its answer is on the way
			p.page(c, c.read, 0)
		}
	case waitCall:
		p.answer(c, p.wakeup(c))
	default:
		result := p.result(c)
		if c.kind == execCall && result.Running {
			p.ctx.Send(p.supervisor, protocol.Yielded{Process: p.id})
		}
		p.answer(c, result)
	}
}

// reply lets the supervisor forget a call and answers the caller, in this order: what the caller does next meets a process
// that is no longer in use by this call.
func (p *process) reply(to protocol.Caller, reply any) {
	p.ctx.Send(p.supervisor, protocol.Answered{Call: to.Call})
	if to.Asker != nil {
		to.Asker.Answer(reply)
	}
}

// expired answers a call whose time is over, unless the leader has just exited and more facts about the exit are about
// to arrive.
func (p *process) expired(id protocol.CallID) {
	c := p.find(id)
	if c == nil {
		return
	}
	c.clock.ran()
	if c.waits() && p.exitPending() && (!c.last || c.extras < maxExtras && c.seen < p.output.Log.Total()) {
		p.prolong(c)
		return
	}
	p.finish(c)
}

// maxExtras bounds for how long a call is prolonged after the leader's exit while output arrives, in units of
// [ptyio.DrainWait]: 1 s. Output that has to come from another machine may take that long, and a caller that learns of the
// exit may not ask for what comes later.
const maxExtras = 20

// prolong gives a call a little more time.
func (p *process) prolong(c *call) {
	c.last, c.seen = true, p.output.Log.Total()
	c.extras++
	c.clock.prolong(p.ctx, c.Call, ptyio.DrainWait)
}

// exitPending reports whether the leader has exited and some facts about the exit are still missing.
func (p *process) exitPending() bool {
	switch s := p.state.(type) {
	case *running:
		return s.stage == judging
	case *exited:
		return !p.attempt.settled() || p.input.open() > 0
	default:
		return false
	}
}

// hold and release are for all calls, when the host has paused them.
func (p *process) hold() {
	p.paused++
	if p.paused == 1 {
		for _, c := range p.calls {
			p.holdCall(c)
		}
	}
}

func (p *process) release() {
	p.paused--
	if p.paused == 0 {
		for _, c := range slices.Clone(p.calls) {
			p.releaseCall(c)
		}
	}
}

func (p *process) holdCall(c *call) {
	if !c.last {
		c.clock.hold()
	}
}

func (p *process) releaseCall(c *call) {
	if !c.last && c.clock.holds > 0 {
		c.clock.release(p.ctx, c.Call)
	}
}

// cancel answers a call with an error; the call takes no output. A run is answered when its command has ended.
func (p *process) cancel(id protocol.CallID) {
	c := p.find(id)
	if c == nil {
		return // it has its answer
	}
	if c.kind == runCall {
		p.cancelRun()
		return
	}
	asked := c.asked()
	p.answer(c, protocol.CancelledError(p.id))
	if asked {
		p.ctx.Send(p.supervisor, protocol.Yielded{Process: p.id})
		p.state.unasked(p)
	}
}

// answerExit answers the calls that wait for the leader's exit. A call that wants output, and came after the exit was
// reported, waits for the end.
func (p *process) answerExit() {
	for _, c := range slices.Clone(p.calls) {
		switch {
		case c.kind == waitCall:
			p.finish(c)
		case !c.waits() || !p.attempt.settled():
		case p.told && !c.began.Before(p.attempt.exitedAt):
		case c.write != nil && !c.write.sent: // it has not begun: serving the writes answers it
		case p.input.open() > 0: // no later answer may tell of these writes
			if !c.last {
				p.prolong(c)
			}
		default:
			p.finish(c)
		}
	}
}

// answerEnd answers everybody when the process has ended: with the output that is left, or with the error that there is
// none.
func (p *process) answerEnd(record *messages.EndRecord) {
	for len(p.calls) > 0 {
		c := p.calls[0]
		nothing := p.told && p.output.Unread.Total() == 0 && !c.began.Before(p.attempt.exitedAt)
		if c.kind == jobCall || c.kind == startCall || c.kind == writeCall && !c.waits() || c.waits() && nothing {
			p.answer(c, protocol.EndedError(p.id, record))
		} else {
			p.finish(c)
		}
		p.passOn(c)
	}
}

// passOn hands a read that is being looked up to the session, which will have the output.
func (p *process) passOn(c *call) {
	if i := slices.Index(p.calls, c); i >= 0 && c.kind == readCall {
		c.looks()
		p.calls = slices.Delete(p.calls, i, i+1)
		p.ctx.Send(p.supervisor, protocol.Request{Caller: c.Caller, Message: c.read})
	}
}

// answerFailure answers everybody who waited for a command that never ran.
func (p *process) answerFailure(failure error) {
	for len(p.calls) > 0 {
		c := p.calls[0]
		if c.kind == waitCall {
			observed := p.wakeup(c)
			observed.Wakeup.At, observed.Wakeup.Status, observed.Wakeup.Lost = time.Now(), messages.StatusNone(), failure.Error()
			p.answer(c, observed)
		} else {
			p.answer(c, failure)
		}
	}
}

// cancelCalls cancels the waiting calls, except that of a run, which ends with its command. A command that has not begun, and that
// needs approval, is ended with them. Input that was queued without waiting is not withdrawn.
func (p *process) cancelCalls() {
	begun := p.attempt != nil
	for _, c := range slices.Clone(p.calls) {
		if c.Caller != (protocol.Caller{}) && c.kind != jobCall && (c.kind != runCall && c.kind != startCall || !begun) {
			p.cancel(c.Call)
		}
	}
}
