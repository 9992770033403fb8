package kernel

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
)

// Receive is an actor's behaviour: it is called for one message at a time and must never block.
type Receive func(ctx *Context)

// Started is the first message of every actor.
type Started struct{}

// Stopping is the last message of an actor that was stopped; one that crashed gets Crashing instead. It is the place to
// answer those who still wait. The timers are cancelled and the context of Go's work ends right after it.
type Stopping struct{}

// Terminated tells a parent, and everyone who watches, that an actor has ended and all its children before it. It
// arrives behind everything the actor itself has sent.
type Terminated struct{ PID *PID }

// Crashed tells a parent that a child panicked and will handle no further message. Terminated follows.
type Crashed struct {
	PID    *PID
	Reason any // what was passed to panic
}

// Crashing is the last message of an actor that crashes, be it at its first: the place to hand over what it owes. It may only
// send; a panic in it is logged and ends it. Its parent gets Crashed behind whatever it sends.
type Crashing struct {
	Reason any // what was passed to panic
	// Message is what it crashed at, and perhaps dealt with in part; nil if that was work. If it owns something, a Discarder,
	// that is now the actor's to meet.
	Message any
}

// Context is an actor's hold on the world. There is one per actor; it must only be used inside of its Receive.
type Context struct {
	sys      *System
	lib      actor.Context
	receive  Receive
	before   func(self *PID, message any) // see Options; nil in the root
	message  any
	sender   *PID
	closed   bool            // stopped or crashed: Receive gets nothing any more
	crashing bool            // it says its last words
	timers   []*Timer        // that are to come
	work     context.Context // of the goroutines started with Go; nil if there is none
	endWork  context.CancelFunc
	working  int // how much of it is under way
}

// Self is the actor.
func (c *Context) Self() *PID { return c.lib.Self() }

// System is what the actor lives in: for goroutines, which must not use the Context, and only Send for those it waits for.
func (c *Context) System() *System { return c.sys }

// Message is the current message.
func (c *Context) Message() any { return c.message }

// Sender waits for a reply to the message, or is nil. It may be kept, to be answered later with Send.
func (c *Context) Sender() *PID { return c.sender }

// Respond sends a reply to the sender, if the message has one.
func (c *Context) Respond(reply any) {
	if c.sender != nil {
		c.lib.Send(c.sender, reply)
	}
}

// Send sends a message that asks for no reply.
func (c *Context) Send(to *PID, message any) { c.lib.Send(to, message) }

// Request sends a message whose reply, or Unanswered, will come as a message to this actor.
func (c *Context) Request(to *PID, message any) { c.lib.Request(to, message) }

// Forward sends a message whose reply goes to the sender of the message being handled.
func (c *Context) Forward(to *PID, message any) { c.SendFor(c.sender, to, message) }

// SendFor sends a message whose reply goes to asker.
func (c *Context) SendFor(asker, to *PID, message any) {
	c.lib.RequestWithCustomSender(to, message, asker)
}

// Spawn starts a child; its name is its parent's, prefix and a unique number. The parent gets Crashed and Terminated.
func (c *Context) Spawn(prefix string, receive Receive) *PID {
	return c.lib.SpawnPrefix(c.sys.props(receive, c.sys.before), prefix)
}

// Watch asks for Terminated when pid ends. If the actor has ended, or is just stopping its children, Terminated comes at
// once. A parent need not watch its children.
func (c *Context) Watch(pid *PID) { c.lib.Watch(pid) }

// Unwatch undoes Watch. A watcher of something that outlives it must do so before it ends: nobody else does, and a watched
// actor holds on to its watchers.
func (c *Context) Unwatch(pid *PID) { c.lib.Unwatch(pid) }

// Stop stops an actor, itself or a child, with all its children, before any other message it has not handled yet.
func (c *Context) Stop(pid *PID) { c.lib.Stop(pid) }
