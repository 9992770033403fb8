package actors

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// wrote says what a child took of a write.
type wrote struct {
	waiter *waiter
	taken  int
	err    error
}

// request handles what a caller asks of a process.
func (p *process) request(message any) {
	if p.state == messages.StateClosed {
		p.ctx.Forward(p.supervisor, message) // it has the record
		return
	}
	switch m := message.(type) {
	case messages.Terminate:
		p.terminate(m)
		return
	case messages.ReadOutput:
		p.ctx.Respond(p.output.read(m, false))
		return
	case messages.Poll:
		p.poll(m)
		return
	}
	if p.child == nil {
		p.refuse(messages.CodeWrongState, "the process is "+string(p.state), "wait for exec_started")
		return
	}
	switch m := message.(type) {
	case messages.WriteStdin:
		p.write(m)
	case messages.CloseStdin:
		asker, sys := p.ctx.Sender(), p.ctx.System()
		p.child.CloseStdin(func(err error) {
			if asker != nil {
				sys.Send(asker, outcome("close stdin", err))
			}
		})
	case messages.Resize:
		p.ctx.Respond(outcome("resize", p.child.Resize(m.Size)))
	case messages.Signal:
		p.ctx.Respond(outcome("signal", p.signal(m)))
	default:
		p.refuse(messages.CodeInvalidRequest, fmt.Sprintf("a process does not understand %T", message), "")
	}
}

// refuse answers the message at hand with an error.
func (p *process) refuse(code messages.Code, detail, hint string) {
	p.reply(&messages.Error{Code: code, Op: "use process", Subject: p.id.String(), Detail: detail, Hint: hint})
}

// reply answers the message at hand and lets the supervisor forget the call.
func (p *process) reply(answer any) { p.tell(p.ctx.Sender(), answer) }

func (p *process) signal(m messages.Signal) error {
	if m.Number < 1 || m.Number > 64 {
		return &messages.Error{Code: messages.CodeInvalidRequest, Op: "signal", Subject: "number",
			Detail: fmt.Sprintf("there is no signal %d", m.Number), Hint: "use a number from 1 to 64"}
	}
	scope := ptyio.Foreground
	if m.Tree {
		scope = ptyio.Tree
	}
	return p.child.Signal(syscall.Signal(m.Number), scope)
}

func (p *process) poll(m messages.Poll) {
	if m.NoTimeout && m.Yield != 0 {
		p.refuse(messages.CodeInvalidRequest, "`no_timeout=true` requires `yield_time_ms` to be omitted", "")
		return
	}
	p.await(&waiter{left: messages.PollYield(m.Yield, p.settings.longestPoll), endless: m.NoTimeout, poll: true,
		maxTokens: p.settings.tokens(m.MaxOutputTokens)})
}

// write sends the bytes at once; only the wait for output queues. It ends a poll that waits before it.
func (p *process) write(m messages.WriteStdin) {
	w := &waiter{left: messages.WriteYield(m.Yield), maxTokens: p.settings.tokens(m.MaxOutputTokens)}
	if len(m.Bytes) == 0 { // NoWait, or it were a poll
		p.reply(p.taken(w))
		return
	}
	for len(p.waiters) > 0 && p.waiters[0].poll {
		p.finish(p.waiters[0])
	}
	p.bus.Publish(messages.TerminalInteraction{Origin: p.origin(), Input: m.Bytes})
	w.writing = true
	if m.NoWait {
		w.left, w.asker = 0, p.ctx.Sender()
	} else {
		p.await(w)
	}
	if !p.launch.TTY && !p.launch.OpenStdin && string(m.Bytes) == "\x03" {
		p.wrote(wrote{w, 1, p.child.Signal(syscall.SIGINT, ptyio.Foreground)})
		return
	}
	patience := m.Patience
	if patience <= 0 {
		patience = messages.DefaultPatience
	}
	p.writes = append(p.writes, w)
	self, sys := p.ctx.Self(), p.ctx.System()
	p.child.Write(m.Bytes, time.Now().Add(patience), func(taken int, err error) { sys.Send(self, wrote{w, taken, err}) })
}

// wrote notes what was taken. A write that failed as a whole is answered at once, unless the process has ended, which the
// call then reports.
func (p *process) wrote(m wrote) {
	w := m.waiter
	w.writing, w.taken, w.inputErr = false, m.taken, asError("write", m.err)
	p.writes = slices.DeleteFunc(p.writes, func(other *waiter) bool { return other == w })
	switch {
	case w.began.IsZero(): // it does not wait for output
		p.tell(w.asker, p.taken(w))
	case w.inputErr != nil && w.taken == 0 && w.inputErr.Code != messages.CodeClosed:
		p.answer(w, w.inputErr)
	case w.late:
		p.finish(w)
	}
	p.endIfOver()
	p.tryAgain()
}

// taken answers a write that waits for nothing else.
func (p *process) taken(w *waiter) any {
	if w.inputErr != nil && w.taken == 0 {
		return w.inputErr
	}
	return &messages.Result{Process: p.id, Call: p.order.Call, Running: p.usable(), Status: p.status, Taken: w.taken, InputErr: w.inputErr}
}

// terminate ends the process; the supervisor answers when that has come about.
func (p *process) terminate(m messages.Terminate) {
	// A leader that has exited by itself was not terminated, whatever becomes of its tree now.
	if p.ending == nil && p.state != messages.StateExited && p.suspect == nil {
		p.ending = &m
	}
	p.endWanted = true
	p.limitOutput()
	p.withdraw()
	switch {
	case p.denied != nil: // there will be no other attempt
		p.denial = p.denied
		p.child.EndTree(p.grace(m))
		p.settle()
	case p.child != nil:
		p.child.EndTree(p.grace(m))
	case p.state == messages.StateStarting:
		p.ctx.EndWork() // the spawner's: there is no other now
	default:
		p.failed(nil)
	}
}

func (p *process) grace(m messages.Terminate) time.Duration {
	switch {
	case m.Grace < 0:
		return 0
	case m.Grace > 0:
		return m.Grace
	case p.order.Grace > 0:
		return p.order.Grace
	default:
		return ptyio.DefaultGrace
	}
}

// outcome turns an error of an operation without a result into its reply.
func outcome(op string, err error) any {
	if err == nil {
		return messages.Done{}
	}
	return asError(op, err)
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
