package system

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/execbus/execbus/messages"
)

// Receive is an actor's behaviour: it is called for one message at a time and must never block.
type Receive func(ctx *Context)

// Started is the first message of every actor.
type Started struct{}

// Stopping is the last message of an actor that was stopped; one that crashed gets Crashing instead. It is the place to
// answer callers that still wait. The timers are cancelled and the context of Go's work ends right after it.
type Stopping struct{}

// Terminated tells a parent, and every watcher, that an actor has ended. It arrives after everything the actor itself
// has sent.
type Terminated struct{ PID *PID }

// Crashed tells a parent that a child panicked and will handle no further message. Terminated follows.
type Crashed struct {
	PID    *PID
	Reason any // what was passed to panic
}

// Crashing is the last message of an actor that crashes, even at its first message: the actor hands over its
// obligations here. It may only send; a panic is logged and ends the handling. The parent gets Crashed after everything
// that the actor sends.
type Crashing struct {
	Reason any // what was passed to panic
	// Message is the message at which the actor crashed, perhaps after handling a part of it; nil if work panicked. If
	// it is a Discarder, the actor must now meet its obligation.
	Message any
}

// Context is how an actor sends, spawns, and starts timers and work. There is one per actor; it must only be used
// inside of its Receive.
type Context struct {
	sys      *System
	lib      actor.Context
	receive  Receive
	message  any
	sender   *PID
	closed   bool            // stopped or crashed: Receive gets nothing any more
	crashing bool            // Crashing is being delivered, or has been
	timers   []*Timer        // that have not fired
	work     context.Context // of the goroutines started with Go; nil if there is none
	endWork  context.CancelFunc
	working  int // how many of these goroutines have not returned
}

// Self is the actor.
func (c *Context) Self() *PID { return c.lib.Self() }

// System is the actor's system, for goroutines, which must not use the Context. Work started with Go should only Send:
// Shutdown waits for it.
func (c *Context) System() *System { return c.sys }

// Message is the current message.
func (c *Context) Message() any { return c.message }

// Sender waits for a reply to the message, or is nil. It may be kept, to be answered later with Send.
func (c *Context) Sender() *PID { return c.sender }

// Respond sends a reply to the sender, if the message has one.
func (c *Context) Respond(reply any) {
	if c.sender != nil {
		c.Send(c.sender, reply)
	}
}

// Unexpected refuses a message that is not in the actor's protocol: the sender gets an error, and what the message owns is discarded.
// It belongs in the default of an actor's switch. To be there is a defect, so it is logged, and tests fail by Options.Unexpected.
func (c *Context) Unexpected() {
	kind := fmt.Sprintf("%T", c.message)
	c.sys.logger.Error("an actor does not know a message", "actor", c.Self().Id, "message", kind)
	if c.sys.options.Unexpected != nil {
		c.sys.options.Unexpected(c.Self(), c.message)
	}
	c.Respond(&messages.Error{Code: messages.ErrInvalidRequest, Op: "ask", Subject: c.Self().Id,
		Detail: "this request is not known there; use a documented one", Hint: "it is a " + kind})
	if owner, ok := c.message.(Discarder); ok {
		c.sys.discard(c.Self(), owner)
	}
}

// Send sends a message that asks for no reply.
func (c *Context) Send(to *PID, message any) { c.lib.Send(to, message) }

// Request sends a message whose reply, or Unanswered, will come as a message to this actor.
func (c *Context) Request(to *PID, message any) { c.lib.Request(to, message) }

// SendFor sends a message whose reply goes to asker.
func (c *Context) SendFor(asker, to *PID, message any) {
	c.lib.RequestWithCustomSender(to, message, asker)
}

// Spawn starts a child; its name is its parent's, prefix and a unique number. The parent gets Crashed and Terminated.
func (c *Context) Spawn(prefix string, receive Receive) *PID {
	return c.lib.SpawnPrefix(c.sys.props(receive), prefix)
}

// Watch asks for Terminated when pid ends. If the actor has ended, or is still stopping its children, Terminated comes
// at once. A parent need not watch its children.
func (c *Context) Watch(pid *PID) { c.lib.Watch(pid) }

// Unwatch undoes Watch. A watcher that ends before the watched actor must call it: a watched actor keeps references to
// its watchers.
func (c *Context) Unwatch(pid *PID) { c.lib.Unwatch(pid) }

// Stop stops this actor or a child, with all its children. It overtakes the messages that the stopped actor has not
// handled yet.
func (c *Context) Stop(pid *PID) { c.lib.Stop(pid) }
