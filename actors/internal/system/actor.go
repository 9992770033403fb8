package system

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
)

// adapted is an actor of ours as the library sees it.
type adapted struct{ *Context }

// Receive translates the library's messages to ours.
func (a adapted) Receive(lib actor.Context) {
	c := a.Context
	c.lib = lib
	switch m := lib.Message().(type) {
	case *actor.Started:
		c.deliver(Started{}, nil)
	case *actor.Stopping:
		c.deliver(Stopping{}, nil)
		c.close()
	case *actor.Stopped:
		// Stopping was the last message.
	case *actor.Terminated:
		// System messages overtake ordinary ones. Sent again as an ordinary one, it queues after the messages of the ended actor.
		if !c.closed {
			c.Send(c.Self(), Terminated{m.Who})
		}
	case fired:
		if c.forget(m.timer) {
			c.deliver(m.timer.message, nil)
		}
	case worked:
		c.ended(m)
	default:
		c.deliver(m, lib.Sender())
	}
}

// deliver lets no panic out: the library would suspend the mailbox, and a panic in Stopping would leave the actor half
// alive.
func (c *Context) deliver(message any, sender *PID) {
	if c.closed {
		return
	}
	c.message, c.sender = message, sender
	defer func() {
		if reason := recover(); reason != nil {
			c.crash(reason)
			c.sys.logPanic("actor crashed", c.Self(), fmt.Sprintf("%T", message), reason)
		}
		c.message, c.sender = nil, nil
	}()
	if _, last := message.(Stopping); c.sys.options.Before != nil && !last && c.lib.Parent() != nil {
		c.sys.options.Before(c.Self(), message)
	}
	c.receive(c)
}

// crash ends the actor, and informs the actor itself, the parent, and the sender of the current message.
func (c *Context) crash(reason any) {
	if c.closed || c.crashing {
		return
	}
	c.crashing = true
	c.handOver(reason)
	c.close()
	if parent := c.lib.Parent(); parent != nil {
		c.Send(parent, Crashed{c.Self(), reason})
	}
	if c.sender != nil {
		failure := unanswered(c.Self(), c.message)
		failure.Err.Code, failure.Err.Detail = messages.ErrRuntimeFailure, "the actor crashed: "+hostcode.Text(reason)
		c.Send(c.sender, failure)
	}
	c.Stop(c.Self())
}

// handOver lets the behaviour hand over its obligations. It gets no second chance after a panic here, or in Stopping.
func (c *Context) handOver(reason any) {
	at, sender := c.message, c.sender
	if _, last := at.(Stopping); last {
		return
	}
	defer func() {
		if again := recover(); again != nil {
			c.sys.logPanic("actor crashed", c.Self(), "Crashing", again)
		}
		c.message, c.sender = at, sender
	}()
	c.message, c.sender = Crashing{reason, at}, nil
	c.receive(c)
}

func (c *Context) close() {
	c.closed = true
	for len(c.timers) > 0 {
		c.timers[0].Cancel()
	}
	if c.endWork != nil {
		c.endWork()
	}
	c.leaveWork()
}
