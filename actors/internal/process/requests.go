package process

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// request handles a caller's request to a process.
func (p *process) request(r protocol.Request) {
	if _, over := p.state.(*closed); over {
		p.ctx.Send(p.supervisor, r) // it has the record
		return
	}
	switch m := r.Message.(type) {
	case messages.Terminate:
		p.terminate(m)
	case messages.ReadOutput:
		p.readOutput(r.Caller, m)
	case messages.Poll:
		p.poll(r.Caller, m)
	case protocol.Observe:
		p.observe(r.Caller, m)
	case protocol.ListExecutions:
		p.reply(r.Caller, p.executed.list())
	case messages.WatchTerminal:
		p.watchTerminal(m.Over)
		p.reply(r.Caller, protocol.Done{})
	case messages.PlaceCursor:
		p.place(m.Positions)
		p.reply(r.Caller, protocol.Done{})
	default:
		p.control(r)
	}
}

// control handles requests that need a child.
func (p *process) control(r protocol.Request) {
	child := p.reachable()
	if child == nil && !p.isForNext(r.Message) {
		p.reply(r.Caller, p.refuse(messages.ErrWrongState,
			"the process is "+strings.ReplaceAll(string(p.state.name()), "_", " ")+"; wait until it runs", "wait for messages.ExecStarted"))
		return
	}
	if barred := p.barred(r.Message); barred != nil {
		p.reply(r.Caller, barred)
		return
	}
	switch m := r.Message.(type) {
	case messages.TakeKeyboard:
		p.takeKeyboard(r.Caller, m.Holder)
	case messages.ReturnKeyboard:
		p.keyboardReturned(messages.ReturnedByHolder)
		p.reply(r.Caller, protocol.Done{})
	case messages.WriteStdin:
		p.write(r.Caller, m)
	case messages.CloseStdin:
		p.closeStdin(r.Caller, m.Keyboard != "")
	case messages.Resize:
		p.resize(child, r.Caller, m.Size)
	case messages.Signal:
		p.signal(child, r.Caller, m)
	default:
		p.reply(r.Caller, p.refuse(messages.ErrInvalidRequest,
			"a process does not know this request; use a documented one", fmt.Sprintf("a process does not understand %T", r.Message)))
	}
}

// reachable returns the calls to the current child, dead or alive; nil before it is born, and between attempts.
func (p *process) reachable() *childCalls {
	s, live := p.state.(*running)
	_, dead := p.state.(*exited)
	if dead || live && !s.between() {
		return p.attempt.calls
	}
	return nil
}

// isForNext reports whether a request can wait between two attempts.
func (p *process) isForNext(message any) bool {
	if _, live := p.state.(*running); !live {
		return false
	}
	switch m := message.(type) {
	case messages.WriteStdin:
		return m.Repeatable
	case messages.CloseStdin:
		return true
	default:
		return false
	}
}

// act makes one call to the child, and answers with its result. done runs if the call has succeeded.
func (p *process) act(child *childCalls, from protocol.Caller, op string, do func(ptyio.Child) error, done func()) {
	c := &call{Caller: from, kind: jobCall, op: op, clock: clock{endless: true}}
	p.await(c)
	child.do(p, job{call: c, do: do, done: done})
}

// resize changes the terminal's size, and publishes it, because every viewer must know it. The output has it before the program: what that
// prints for the new size may come before our call is over.
func (p *process) resize(child *childCalls, from protocol.Caller, size messages.Size) {
	known := size.OrDefault()
	if p.decision.launch.TTY {
		p.output.Resize(p.size, known)
	}
	c := &call{Caller: from, kind: jobCall, op: "resize", clock: clock{endless: true}}
	p.await(c)
	child.do(p, job{call: c, do: func(c ptyio.Child) error { return c.Resize(size) }, done: func() {
		p.output.Resize(p.size, known) // an earlier one may have failed meanwhile
		if known != p.size {
			p.size = known
			p.Bus.Publish(messages.TerminalResized{Origin: p.origin(), Size: known})
			p.tellProgress()
		}
	}, failed: func() {
		if p.decision.launch.TTY {
			p.output.Resize(known, p.size)
		}
	}})
}

func (p *process) refuse(code messages.ErrorCode, detail, hint string) *messages.Error {
	return &messages.Error{Code: code, Op: "use process", Subject: p.id.String(), Detail: detail, Hint: hint}
}

func (p *process) signal(child *childCalls, from protocol.Caller, m messages.Signal) {
	if m.Signal < 1 || m.Signal > 64 {
		p.reply(from, &messages.Error{Code: messages.ErrInvalidRequest, Op: "signal", Subject: "signal",
			Detail: fmt.Sprintf("there is no signal %d; use a number from 1 to 64", int(m.Signal))})
		return
	}
	scope := ptyio.Foreground
	if m.Tree {
		scope = ptyio.Tree
	}
	p.act(child, from, "signal", func(c ptyio.Child) error { return c.Signal(m.Signal, scope) }, func() {
		p.Bus.Publish(messages.ProcessSignaled{Origin: p.origin(), Signal: m.Name(), Tree: m.Tree})
	})
}

func (p *process) poll(from protocol.Caller, m messages.Poll) {
	c := &call{Caller: from, kind: pollCall, budget: p.settings.Budget(m.MaxOutputTokens, m.MaxOutputBytes)}
	c.clock.left, c.clock.endless = messages.PollYield(m.Yield, p.settings.LongestPoll), m.NoTimeout
	if !m.NoTimeout || m.Until != nil { // one that waits for the end says so
		c.until = p.newCondition(m.Until)
	}
	if c.until.patient() && m.Yield != nil {
		c.clock.left = messages.UntilYield(m.Yield, p.settings.LongestPoll)
	}
	p.await(c)
	c.clock.run(p.ctx, c.Call)
	p.watch(c)
	p.step() // the leader may have exited, and the exit may not have been reported
}

// observe waits for the leader's exit or another reason, and takes no output. The wait has a clock of its own.
func (p *process) observe(from protocol.Caller, m protocol.Observe) {
	if m.Unreported && p.told {
		p.reply(from, p.nothing(m.Item))
		return
	}
	c := &call{Caller: from, kind: waitCall, item: m.Item, clock: clock{endless: true}}
	if m.Until != nil { // otherwise it waits for the exit alone
		c.until = p.newCondition(m.Until)
	}
	p.await(c)
	p.watch(c)
	p.step()
	p.sayNothing(c)
}

// sayNothing tells a wait, once, that nothing is met yet, when all output that there was at its beginning has been compared.
func (p *process) sayNothing(c *call) {
	u := c.until
	if c.kind != waitCall || c.saidNothing || !slices.Contains(p.calls, c) || u != nil && u.comparing {
		return
	}
	c.saidNothing = true
	c.Asker.Answer(p.nothing(c.item))
}

func (p *process) nothing(item int) protocol.Observed {
	return protocol.Observed{Target: protocol.Target{Item: item, Process: p.id}}
}

// terminate begins the end; the supervisor answers when the process has ended. The end is attributed to the first
// request before the leader's exit.
func (p *process) terminate(m messages.Terminate) {
	if p.ending.first == nil && !p.leaderExited() {
		p.ending.first = &m
	}
	p.ending.wanted = true
	p.state.terminate(p, m)
}

// leaderExited reports whether the leader of what may be the last attempt has exited by itself.
func (p *process) leaderExited() bool {
	s, live := p.state.(*running)
	_, dead := p.state.(*exited)
	return dead || live && (s.stage == judging || s.stage == asking || s.stage == clearing)
}
