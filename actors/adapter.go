package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"

	"github.com/execbus/execbus/messages"
)

// PID names an actor, or a Call that waits for a reply. Its field Id is its name in logs.
type PID = actor.PID

// Receive is an actor's behaviour: it is called for one message at a time and must never block.
type Receive func(ctx *Context)

// Started is the first message of every actor.
type Started struct{}

// Stopping is the last message of an actor that was stopped; one that crashed does not get it. It is the place to
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

// Unanswered tells the sender of a request that no reply will come from the actor it reached: it has ended (Err matches
// messages.ErrClosed), or it crashed at this very message (messages.ErrRuntimeFailure).
type Unanswered struct {
	To      *PID
	Message any
	Err     *messages.Error
}

// Discarder is a message that owns something. Discard is called instead of the delivery if the actor has ended, from
// whatever goroutine finds out, so it must not block.
type Discarder interface{ Discard() }

// System is a set of actors. Its methods are safe for concurrent use and block, so they must not be used inside of an
// actor; that has its Context.
type System struct {
	lib    *actor.ActorSystem
	logger *slog.Logger
	root   *PID // the parent of all top-level actors
	pool   workers

	dispatcher actor.PropsOption // hands actors to the pool
}

// NewSystem starts an empty system, which logs to logger and nowhere else. Goroutines wait for its work until Shutdown.
func NewSystem(logger *slog.Logger) *System {
	s := &System{logger: logger, pool: newWorkers()}
	s.dispatcher = actor.WithDispatcher(s.pool)
	s.lib = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger }))
	// The library's own subscribers log the content of undelivered messages, which may be secret, keep a goroutine for a
	// second to throttle that, and answer senders with a reply that does not say who is gone.
	s.lib.EventStream = eventstream.NewEventStream()
	s.lib.EventStream.Subscribe(s.deadLetter)
	shrink(s.lib.ProcessRegistry)
	top := &root{children: map[string]*PID{}, work: map[string]int{}, stopping: map[string][]*PID{}}
	s.root = s.lib.Root.SpawnPrefix(s.props(top.receive), "root")
	return s
}

// registryBuckets is how many of the library's table of actors are kept.
const registryBuckets = 8

// shrink makes that table small. It has 1024 times 32 maps, and each allocates at its first use: 12 MiB
// after some ten thousand names, and every actor and every call needs a new one.
func shrink(registry *actor.ProcessRegistryValue) {
	all := registry.LocalPIDs.LocalPIDs
	registry.LocalPIDs = &actor.SliceMap{LocalPIDs: slices.Clone(all[:registryBuckets])}
	for _, bucket := range all {
		if bucket.IsEmpty() { // Items starts a goroutine for each of its 32 maps
			continue
		}
		for name, process := range bucket.Items() {
			registry.LocalPIDs.GetBucket(name).Set(name, process)
		}
	}
}

// Spawn starts a top-level actor; its name is prefix and a unique number. After Shutdown it fails with
// messages.ErrClosed.
func (s *System) Spawn(prefix string, receive Receive) (*PID, error) {
	return Ask[*PID](context.Background(), s, s.root, spawn{prefix, receive})
}

// Send sends a message that asks for no reply. Unlike the other methods it never blocks.
func (s *System) Send(to *PID, message any) { s.lib.Root.Send(to, message) }

// Stop stops a top-level actor with all its children and waits until they have ended. Messages they have not handled by
// then are not handled any more: requests among them are answered with messages.ErrClosed.
func (s *System) Stop(ctx context.Context, pid *PID) error {
	_, err := Ask[done](ctx, s, s.root, stop{pid})
	if errors.Is(err, messages.ErrClosed) {
		return nil // the whole system has ended, and so has pid
	}
	return err
}

// Shutdown refuses new actors, stops all there are, and waits until they and the work they started with Go have ended.
// If ctx ends first the error names what is left; Shutdown may then be called again, and as often as one likes.
func (s *System) Shutdown(ctx context.Context) error {
	_, err := Ask[done](ctx, s, s.root, shutdown{})
	if err == nil || errors.Is(err, messages.ErrClosed) {
		return nil
	}
	left, gone := Ask[[]string](context.WithoutCancel(ctx), s, s.root, remaining{})
	if gone != nil {
		return nil // the last actor ended between the two questions
	}
	return &messages.Error{
		Code:    messages.CodeRuntimeFailure,
		Op:      "shutdown",
		Subject: strings.Join(left, ", "),
		Detail:  "not stopped: " + err.Error(),
	}
}

// props is how the library starts an actor of ours.
func (s *System) props(receive Receive) *actor.Props {
	c := &Context{sys: s, receive: receive}
	return actor.PropsFromProducer(func() actor.Actor { return adapted{c} },
		s.dispatcher, actor.WithMailbox(func() actor.Mailbox { return mailbox{unbounded(), c} }))
}

// unbounded makes the library's own mailboxes.
var unbounded = actor.Unbounded()

// deadLetter gets every message that cannot be delivered any more.
func (s *System) deadLetter(event any) {
	letter, ok := event.(*actor.DeadLetterEvent)
	if !ok {
		return
	}
	if watch, ok := letter.Message.(*actor.Watch); ok {
		s.Send(watch.Watcher, Terminated{letter.PID})
		return
	}
	s.logger.Debug("message for an ended actor", "actor", letter.PID.GetId(), "message", fmt.Sprintf("%T", letter.Message))
	if letter.Sender != nil {
		s.Send(letter.Sender, unanswered(letter.PID, letter.Message))
	}
	if owner, ok := letter.Message.(Discarder); ok {
		s.discard(owner)
	}
}

// discard keeps a panic away from the sender, in whose goroutine this may run.
func (s *System) discard(owner Discarder) {
	defer func() {
		if reason := recover(); reason != nil {
			s.logger.Error("discarding a message panicked", "message", fmt.Sprintf("%T", owner),
				"reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
		}
	}()
	owner.Discard()
}

func unanswered(to *PID, message any) Unanswered {
	return Unanswered{to, message, &messages.Error{
		Code:    messages.CodeClosed,
		Op:      fmt.Sprintf("ask %T", message),
		Subject: to.GetId(),
		Detail:  "the actor has ended",
	}}
}

// Context is an actor's hold on the world. There is one per actor; it must only be used inside of its Receive.
type Context struct {
	sys     *System
	lib     actor.Context
	receive Receive
	message any
	sender  *PID
	closed  bool            // stopped or crashed: Receive gets nothing any more
	timers  []*Timer        // that are to come
	work    context.Context // of the goroutines started with Go; nil if there is none
	endWork context.CancelFunc
}

// Self is the actor.
func (c *Context) Self() *PID { return c.lib.Self() }

// Message is what is to be handled now.
func (c *Context) Message() any { return c.message }

// Sender is who waits for a reply to the message, or nil. It may be kept, to be answered later with Send.
func (c *Context) Sender() *PID { return c.sender }

// Become replaces the behaviour, from the next message on.
func (c *Context) Become(next Receive) { c.receive = next }

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
	return c.lib.SpawnPrefix(c.sys.props(receive), prefix)
}

// Watch asks for Terminated when pid ends; of an actor that has ended, or is just stopping its children, it comes at
// once. A parent need not watch its children.
func (c *Context) Watch(pid *PID) { c.lib.Watch(pid) }

// Unwatch undoes Watch. Who watches something that outlives it must do so before it ends: nobody else does, and what is
// watched holds on to its watchers.
func (c *Context) Unwatch(pid *PID) { c.lib.Unwatch(pid) }

// Stop stops an actor, itself or a child, with all its children, before any other message it has not handled yet.
func (c *Context) Stop(pid *PID) { c.lib.Stop(pid) }

// Go runs blocking work in another goroutine and delivers its result, unless that is nil, as a message to this actor. Its
// context ends with the actor or by EndWork; a result that comes when the actor has ended and owns something should be a
// Discarder. A panic in work crashes the actor. The goroutine is used again: work must not leave it locked to a thread.
func (c *Context) Go(work func(context.Context) any) {
	if c.work == nil {
		c.work, c.endWork = context.WithCancel(context.Background())
	}
	self, ctx, sys := c.Self(), c.work, c.sys
	c.Send(sys.root, workStarted{self.Id})
	sys.pool.Schedule(func() { sys.run(ctx, self, work) })
}

// EndWork ends the context of all work that is under way. Work that begins later gets another.
func (c *Context) EndWork() {
	if c.work != nil {
		c.endWork()
		c.work = nil
	}
}

func (s *System) run(ctx context.Context, owner *PID, work func(context.Context) any) {
	defer s.Send(s.root, workEnded{owner.Id})
	returned := false
	defer func() {
		if reason := recover(); reason != nil {
			s.Send(owner, workPanicked{reason})
			s.logCrash(owner, "work", reason)
		} else if !returned {
			s.Send(owner, workLeft{})
		}
	}()
	result := work(ctx)
	returned = true
	if result != nil {
		s.Send(owner, result)
	}
}

// workLeft is delivered instead of the result of work that ended its goroutine.
type workLeft struct{}

// workPanicked is delivered instead of the result of work.
type workPanicked struct{ reason any }

// adapted is how the library sees an actor of ours.
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
		// System messages overtake ordinary ones. Sent again as an ordinary one it queues behind what the ended actor sent.
		if !c.closed {
			c.Send(c.Self(), Terminated{m.Who})
		}
	case fired:
		if c.forget(m.timer) {
			c.deliver(m.timer.message, nil)
		}
	case workPanicked:
		c.crash(m.reason)
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
			c.sys.logCrash(c.Self(), fmt.Sprintf("%T", message), reason)
		}
		c.message, c.sender = nil, nil
	}()
	c.receive(c)
}

// crash ends the actor, and tells those who have to know: the parent, and the sender of the message at hand.
func (c *Context) crash(reason any) {
	if c.closed {
		return
	}
	c.close()
	if parent := c.lib.Parent(); parent != nil {
		c.Send(parent, Crashed{c.Self(), reason})
	}
	if c.sender != nil {
		failure := unanswered(c.Self(), c.message)
		failure.Err.Code, failure.Err.Detail = messages.CodeRuntimeFailure, fmt.Sprintf("the actor crashed: %v", reason)
		c.Send(c.sender, failure)
	}
	c.Stop(c.Self())
}

func (s *System) logCrash(pid *PID, at string, reason any) {
	s.logger.Error("actor crashed", "actor", pid.Id, "at", at, "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
}

func (c *Context) close() {
	c.closed = true
	for len(c.timers) > 0 {
		c.timers[0].Cancel()
	}
	c.EndWork()
}

// mailbox is the library's unbounded mailbox with a door in front of the actor.
type mailbox struct {
	actor.Mailbox
	c *Context
}

func (m mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(door{invoker, m.c}, dispatcher)
}

// door turns messages away once the actor is closed. The library would still deliver them after Stopping, and drop
// them without a word after the end.
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

// EscalateFailure gets what deliver could not catch, such as a panic of the host's logger. It keeps the failure from the
// library's supervision, which would suspend the mailbox, with all requests in it, and might restart the actor.
func (d door) EscalateFailure(reason, _ any) { d.c.crash(reason) }
