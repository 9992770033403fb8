package session

import (
	"fmt"
	"slices"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/actors/internal/wait"
	"github.com/execbus/execbus/messages"
)

// calls are the open calls of a session: those that another actor answers.
type calls struct {
	last  protocol.CallID
	table map[protocol.CallID]*openCall
	// byAsker finds the calls of an asker that cancels them. A caller has one at a time; an actor of ours may have
	// several.
	byAsker map[string][]protocol.CallID
}

// openCall is a call that another actor answers.
type openCall struct {
	asker *system.PID // nil: no caller waits for the answer
	entry *entry      // the process it concerns; nil if that is another actor
	home  *system.PID // the wait actor that answers it; nil if none does
	ender bool        // it waits here for the end of the process
}

// newCall is the caller of a request that is answered at once, and so is not in the table.
func (v *supervisor) newCall() protocol.Caller {
	return protocol.Caller{Asker: v.recipient(v.ctx.Sender())}
}

// sender is the recipient of an answer to a message.
type sender struct {
	system *system.System
	pid    *system.PID
}

func (s sender) Answer(reply any) { s.system.Send(s.pid, reply) }

// recipient is where answers to an asker go; nil if there is none.
func (v *supervisor) recipient(pid *system.PID) protocol.Recipient {
	if pid == nil {
		return nil
	}
	return sender{v.ctx.System(), pid}
}

// open notes the message at hand as a call that concerns a process, which is in use as long as it is open.
func (v *supervisor) open(e *entry) protocol.Caller {
	e.open++
	return v.note(&openCall{asker: v.ctx.Sender(), entry: e})
}

func (v *supervisor) note(c *openCall) protocol.Caller {
	t := &v.calls
	if t.table == nil {
		t.table, t.byAsker = map[protocol.CallID]*openCall{}, map[string][]protocol.CallID{}
	}
	t.last++
	t.table[t.last] = c
	if c.asker != nil {
		t.byAsker[c.asker.Id] = append(t.byAsker[c.asker.Id], t.last)
	}
	return protocol.Caller{Call: t.last, Asker: v.recipient(c.asker)}
}

// answered forgets a call.
func (v *supervisor) answered(id protocol.CallID) {
	t := &v.calls
	c := t.table[id]
	if c == nil {
		return
	}
	delete(t.table, id)
	if c.entry != nil {
		c.entry.open--
	}
	if c.asker == nil {
		return
	}
	left := slices.DeleteFunc(t.byAsker[c.asker.Id], func(other protocol.CallID) bool { return other == id })
	if len(left) == 0 {
		delete(t.byAsker, c.asker.Id)
	} else {
		t.byAsker[c.asker.Id] = left
	}
}

// reply answers a call that no other actor will answer.
func (v *supervisor) reply(id protocol.CallID, answer any) {
	if c := v.calls.table[id]; c != nil {
		if c.asker != nil {
			v.ctx.Send(c.asker, answer)
		}
		v.answered(id)
	}
}

// cancel cancels the calls of one asker. They are answered at once.
func (v *supervisor) cancel(m protocol.CancelWait) {
	for _, id := range slices.Clone(v.calls.byAsker[m.Waiter]) {
		switch c := v.calls.table[id]; {
		case c.home != nil:
			v.ctx.Send(c.home, protocol.CancelCall{Call: id})
		case c.ender:
			v.reply(id, protocol.CancelledError(c.entry.info.Process)) // the termination goes on
		case c.entry != nil:
			v.ctx.Send(c.entry.actor, protocol.CancelCall{Call: id})
		default:
			v.reply(id, &messages.Error{Code: messages.ErrCancelled, Op: "use session", Detail: "the call was cancelled"})
		}
	}
}

// awaitExit waits for exits. The actor of a process serves a wait for one; a wait for several has an actor of its own.
func (v *supervisor) awaitExit(m messages.AwaitExit) {
	switch len(m.Processes) {
	case 0:
		v.ctx.Respond(&messages.Error{Code: messages.ErrInvalidRequest, Op: "wait", Subject: "processes", Detail: "there is none; name at least one"})
	case 1:
		v.route(m.Processes[0], m)
	default:
		if len(m.Processes) > maxWaited {
			v.ctx.Respond(&messages.Error{Code: messages.ErrInvalidRequest, Op: "wait", Subject: "processes", Detail: fmt.Sprintf("there are more than %d; wait for fewer at once", maxWaited)})
			return
		}
		c := &openCall{asker: v.ctx.Sender()}
		c.home = wait.Spawn(v.ctx, v.note(c), m)
	}
}

// maxWaited bounds the processes that one call waits for.
const maxWaited = 4096
