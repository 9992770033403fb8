package kernel

import "github.com/asynkron/protoactor-go/actor"

// unbounded makes the library's own mailboxes.
var unbounded = actor.Unbounded()

// mailbox is the library's unbounded mailbox with a door between it and the actor.
type mailbox struct {
	actor.Mailbox
	c *Context
}

func (m mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(door{invoker, m.c}, dispatcher)
}

// door sends messages to the dead letters once the actor is closed. The library would still deliver them after
// Stopping, and drop them silently after the end.
type door struct {
	actor.MessageInvoker
	c *Context
}

func (d door) InvokeUserMessage(message any) {
	if d.c.closed {
		d.c.sys.lib.DeadLetter.SendUserMessage(d.c.Self(), message)
		return
	}
	d.MessageInvoker.InvokeUserMessage(message)
}

// EscalateFailure gets a panic that deliver did not catch; we know of none. It keeps the failure from the library's
// supervision, which would suspend the mailbox, with all requests in it, and might restart the actor.
func (d door) EscalateFailure(reason, _ any) { d.c.crash(reason) }
