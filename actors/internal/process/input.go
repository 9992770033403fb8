package process

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// input is everything that callers have written to a process. Bytes never overtake bytes: a write waits behind an earlier
// one that waits.
type input struct {
	last    uint64   // number of the newest write
	current *call    // the waiting write whose bytes are out, and that has no answer yet
	held    []*call  // calls that wait for those before them, ends of the input included
	sent    []*write // those that the child has not reported on
	pending int      // bytes of both
	news    []messages.InputOutcome
	again   again
}

// maxNews bounds the outcomes that no answer has reported yet; the oldest is dropped for a new one.
const maxNews = 16

// open is how many writes the child has not reported on.
func (in *input) open() int { return len(in.sent) }

// write is one WriteStdin, or the end of the input.
type write struct {
	number     uint64
	bytes      []byte
	patience   time.Duration
	untilTaken bool
	repeatable bool
	finish     bool // the end of the input
	keyed      bool // it comes from the person who has the keyboard
	sent       bool // its bytes are out
	done       bool // the child has reported on them
	taken      int
	err        *messages.Error
	progress   func() int // asks the child how much it has taken; nil if it cannot be asked here
	// overtaken says that a key which becomes a signal was sent after it. The write then waits only for its own bytes.
	overtaken bool
}

// soFar is how much has been taken by now.
func (w *write) soFar() int {
	if w.done || w.progress == nil {
		return w.taken
	}
	return w.progress()
}

// write takes a WriteStdin. A waiting write is one step: its bytes go out when the waiting write before it has its answer.
func (p *process) write(from protocol.Caller, m messages.WriteStdin) {
	c := &call{Caller: from, kind: writeCall, budget: p.settings.Budget(m.MaxOutputTokens, m.MaxOutputBytes),
		write: &write{bytes: m.Bytes, patience: messages.DefaultWritePatience, untilTaken: m.UntilTaken || m.NoWait, repeatable: m.Repeatable,
			keyed: m.Keyboard != ""}}
	c.clock.left, c.clock.endless = messages.WriteYield(m.Yield), c.write.untilTaken
	if !c.write.untilTaken {
		c.until = p.newCondition(m.Until)
	}
	if c.until.patient() {
		c.clock.left = messages.UntilYield(m.Yield, p.settings.LongestPoll)
	}
	if m.Patience != nil {
		c.write.patience = *m.Patience
	}
	if len(m.Bytes) == 0 { // only with UntilTaken or NoWait: otherwise it is a poll
		p.reply(from, p.bareResult(c.write))
		return
	}
	if m.NoWait {
		c.Caller = protocol.Caller{} // the write goes on like any other; its caller has its answer
	}
	if !c.write.keyed { // what a person types does not answer a model's polls
		p.endPolls()
	}
	if m.Repeatable { // it is not typed, and there may be no child at the moment
		if full := p.enqueue(c); full != nil {
			p.reply(from, full)
		}
		return
	}
	signals, discards := p.signalKey(m.Bytes)
	switch {
	case !p.hasInput() && string(m.Bytes) == "\x03":
		p.interrupt(c)
	case signals && (c.write.keyed || !p.keyboard.taken()):
		p.press(c, discards)
	default:
		if full := p.enqueue(c); full != nil {
			p.reply(from, full)
			return
		}
	}
	if m.NoWait {
		p.reply(from, p.bareResult(c.write))
	}
}

// bareResult is the answer to a write that takes no output.
func (p *process) bareResult(w *write) *messages.Result {
	r := &messages.Result{Process: p.id, Call: p.command.Call, Running: p.usable(), Status: p.status(), Taken: w.soFar(), InputErr: w.err}
	if !w.done {
		r.Pending = len(w.bytes) - r.Taken
	}
	return r
}

// closeStdin takes the end of the input, which comes behind earlier writes.
func (p *process) closeStdin(from protocol.Caller, keyed bool) {
	c := &call{Caller: from, kind: jobCall, op: "close stdin", clock: clock{endless: true}, write: &write{finish: true, untilTaken: true, keyed: keyed}}
	if full := p.enqueue(c); full != nil {
		p.reply(from, full)
	}
}

// endPolls answers the polls that wait: a write ends them.
func (p *process) endPolls() {
	for _, c := range slices.Clone(p.calls) {
		if c.kind == pollCall {
			p.finish(c)
		}
	}
}

// interrupt acts on the only input that a process without input takes. It never waits for another.
func (p *process) interrupt(c *call) {
	p.input.pending += len(c.write.bytes)
	p.await(c)
	p.beginWrite(c, func(child ptyio.Child, done func(ptyio.Taken, error)) func() int {
		done(ptyio.Taken{Bytes: 1, Runs: []messages.InputRun{{Kind: messages.InputPipe, Bytes: 1}}}, child.Signal(syscall.SIGINT, ptyio.Foreground))
		return nil
	})
}

// signalKey asks whether the terminal turns input into a signal, and whether it then discards earlier input.
func (p *process) signalKey(input []byte) (signals, discards bool) {
	if !p.decision.launch.TTY || len(input) != 1 {
		return false, false
	}
	return ptyio.SignalKey(p.attempt.calls.child, input[0])
}

// press sends a key that becomes a signal, ahead of everything that waits, because the child handles it first, too. If the
// call waits, its answer is the program's output from now on.
func (p *process) press(c *call, discards bool) {
	in := &p.input
	if discards {
		for _, held := range slices.Clone(in.held) {
			p.answer(held, &messages.Error{Code: messages.ErrInputNotTaken, Op: "write", Subject: p.id.String(),
				Detail: "a key interrupted the process before the bytes were sent, and they were discarded; write them again if they are still wanted"})
		}
	}
	before := in.current
	in.pending += len(c.write.bytes)
	p.await(c)
	p.send(c)
	if before == nil || c.write.untilTaken {
		return
	}
	before.write.overtaken = true
	if before.write.done {
		p.finish(before)
	}
}

// enqueue sends a write, or holds it behind those that wait. It refuses one that there is no room for.
func (p *process) enqueue(c *call) *messages.Error {
	in := &p.input
	if in.pending+len(c.write.bytes) > ptyio.MaxPendingInput || len(in.held)+len(in.sent) >= ptyio.MaxPendingWrites {
		return &messages.Error{Code: messages.ErrInputFull, Op: "write", Subject: p.id.String(),
			Detail: fmt.Sprintf("%d writes with %d bytes wait to be taken; wait until the process has read, or write in smaller parts",
				len(in.held)+len(in.sent), in.pending)}
	}
	in.pending += len(c.write.bytes)
	p.await(c)
	if c.write.keyed { // what others have written waits until the keyboard is given back
		p.send(c)
		return nil
	}
	in.held = append(in.held, c)
	p.sendHeld()
	return nil
}

// send writes the bytes of a write, or ends the input.
func (p *process) send(c *call) {
	w := c.write
	if w.finish {
		p.beginWrite(c, func(child ptyio.Child, done func(ptyio.Taken, error)) func() int {
			child.CloseStdin(func(err error) { done(ptyio.Taken{}, err) })
			return nil
		})
		return
	}
	if !w.untilTaken {
		p.input.current = c
	}
	deadline := time.Now().Add(w.patience)
	p.beginWrite(c, func(child ptyio.Child, done func(ptyio.Taken, error)) func() int {
		return child.Write(w.bytes, deadline, done)
	})
}

// beginWrite hands a write to the child. The clock of its call begins now. A host's own child is not asked later how far it
// has come, because that could block.
func (p *process) beginWrite(c *call, do func(child ptyio.Child, done func(ptyio.Taken, error)) (taken func() int)) {
	w := c.write
	p.input.last++
	w.sent, w.number = true, p.input.last
	p.input.sent = append(p.input.sent, w)
	c.clock.run(p.ctx, c.Call)
	p.watch(c)
	self, sys, number := p.ctx.Self(), p.ctx.System(), w.number // the callback must not touch the actor
	prompt := p.attempt.calls.prompt
	p.attempt.calls.do(p, job{write: number, do: func(child ptyio.Child) error {
		progress := do(child, func(taken ptyio.Taken, err error) { sys.Send(self, wrote{number, taken, err}) })
		if prompt {
			w.progress = progress
		}
		return nil
	}})
}

// nextWrite sends the writes behind one whose call has its answer. A cancelled write sends nothing.
func (p *process) nextWrite(c *call) {
	in := &p.input
	if in.current == c {
		in.current = nil
	}
	if i := slices.Index(in.held, c); i >= 0 {
		in.held = slices.Delete(in.held, i, i+1)
		in.pending -= len(c.write.bytes)
	}
	p.sendHeld()
}

// sendHeld sends the writes that wait for no other, unless a person has the keyboard. Between two attempts there is no child to take them,
// so they wait for the next.
func (p *process) sendHeld() {
	in := &p.input
	for in.current == nil && len(in.held) > 0 && p.reachable() != nil && !p.keyboard.taken() {
		next := in.held[0]
		in.held = slices.Delete(in.held, 0, 1)
		p.send(next)
	}
}

// wrote notes how much of a write a child took. A write that failed as a whole is answered at once, unless the process has
// ended, which the call then reports.
func (p *process) wrote(m wrote) {
	i := slices.IndexFunc(p.input.sent, func(w *write) bool { return w.number == m.write })
	if i < 0 {
		return
	}
	w := p.input.sent[i]
	p.input.sent = slices.Delete(p.input.sent, i, i+1)
	p.input.pending -= len(w.bytes)
	w.done, w.taken, w.err = true, min(max(m.taken.Bytes, 0), len(w.bytes)), protocol.AsError("write", m.err)
	p.publishInput(w, m.taken.Runs)
	later := p.keepInput(w)
	switch c := p.callOf(w); {
	case later: // its call waits for the next attempt
	case c == nil:
		p.input.note(w)
	case w.finish:
		p.answer(c, protocol.Outcome(c.op, m.err))
	case w.err != nil && w.taken == 0 && (w.untilTaken || w.err.Code != messages.ErrClosed):
		p.answer(c, w.err)
	case w.untilTaken:
		p.answer(c, p.bareResult(w))
	case w.overtaken:
		p.finish(c)
	}
	p.step()
}

// publishInput tells what was taken of a write. What a child says too much about is bounded by what it took, and the rest is unknown.
func (p *process) publishInput(w *write, runs []messages.InputRun) {
	rest := w.bytes[:w.taken]
	for len(rest) > 0 {
		run := messages.InputRun{Kind: messages.InputUnknown, Bytes: len(rest)}
		if len(runs) > 0 {
			run, runs = runs[0], runs[1:]
		}
		n := min(max(run.Bytes, 0), len(rest))
		if n > 0 {
			e := messages.TerminalInteraction{Origin: p.origin(), Length: n, Mode: run.Kind}
			if run.Kind.Recordable(p.settings.RecordRaw) {
				e.Input = rest[:n]
				if n < len(w.bytes) { // a part must not hold the whole in memory
					e.Input = slices.Clone(e.Input)
				}
			}
			p.Bus.Publish(e)
		}
		rest = rest[n:]
	}
}

// step lets the state advance if it can.
func (p *process) step() {
	switch s := p.state.(type) {
	case *running:
		s.step(p)
	case *exited:
		s.step(p)
	}
}

// callOf is the call that waits for a write; nil if it has been answered.
func (p *process) callOf(w *write) *call {
	for _, c := range p.calls {
		if c.write == w {
			return c
		}
	}
	return nil
}

// note remembers, for the next answer, the outcome of a write that was answered before it was known.
func (in *input) note(w *write) {
	if w.finish || w.repeatable || w.keyed {
		return
	}
	if len(in.news) == maxNews {
		in.news = in.news[1:]
	}
	in.news = append(in.news, messages.InputOutcome{Bytes: len(w.bytes), Taken: w.taken, Err: w.err})
}

// limitInput makes sure that writes do not hold up the end because a dead child never reports on them. Our own children
// always report.
func (p *process) limitInput() {
	if !p.attempt.calls.prompt {
		p.ctx.After(p.Patience.Child, inputOverdue{p.attempt.number})
	}
}

// loseWrites ends the writes of a child that is gone and has not reported their outcome.
func (p *process) loseWrites() {
	for _, w := range slices.Clone(p.input.sent) {
		p.wrote(wrote{w.number, ptyio.Taken{Bytes: w.soFar()}, &messages.Error{Code: messages.ErrClosed, Op: "write", Detail: "the process has ended"}})
	}
}
