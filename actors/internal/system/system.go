package system

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"

	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
)

// PID names an actor, or a Call that waits for a reply. Its field Id is its name in logs.
type PID = actor.PID

// Options of a System. The zero value suits a host.
type Options struct {
	// Before is for tracing and fault injection. If not nil, it is called ahead of each message that is delivered to a
	// spawned actor, but for Stopping, in the goroutine in which the actor receives; so it must not block. A panic in it
	// is that actor's crash, and the actor does not see the message. It must be safe for concurrent use.
	Before func(self *PID, message any)
	// Unexpected is for tests. If not nil, Context.Unexpected calls it.
	Unexpected func(self *PID, message any)
}

// System is a set of actors. Its methods are safe for concurrent use. All but Send block, so they must not be used inside
// of an actor, which has its Context instead.
type System struct {
	options Options
	lib     *actor.ActorSystem
	logger  *slog.Logger
	root    *PID // the parent of all top-level actors
}

// NewSystem starts an empty system, which logs to logger and nowhere else. The logger must neither block nor panic.
func NewSystem(logger *slog.Logger, options Options) *System {
	s := &System{options: options, lib: newActorSystem(logger), logger: logger}
	// The library's own subscribers log the content of undelivered messages, which may be secret, keep a goroutine for
	// a second to throttle that, and answer senders with a reply that does not name the actor that has ended.
	s.lib.EventStream = eventstream.NewEventStream()
	s.lib.EventStream.Subscribe(s.deadLetter)
	top := &root{children: map[string]*PID{}, work: map[string]int{}}
	s.root = s.lib.Root.SpawnPrefix(s.props(top.receive), "root")
	return s
}

// Spawn starts a top-level actor; its name is prefix and a unique number. After Shutdown it fails with
// messages.ErrClosed.
func (s *System) Spawn(prefix string, receive Receive) (*PID, error) {
	return Ask[*PID](context.Background(), s, s.root, spawn{prefix, receive})
}

// Send sends a message that asks for no reply. It never blocks.
func (s *System) Send(to *PID, message any) { s.lib.Root.Send(to, message) }

// Shutdown refuses new actors, stops all there are, and waits until they and the work they started with Go have ended.
// It does not wait for work started with Detach. If ctx ends first, the error names the actors and work that are left;
// Shutdown may then be called again, any number of times.
func (s *System) Shutdown(ctx context.Context) error {
	_, err := Ask[done](ctx, s, s.root, shutdown{})
	if err == nil || errors.Is(err, messages.ErrClosed) {
		return nil
	}
	left, gone := Ask[[]string](context.WithoutCancel(ctx), s, s.root, remaining{})
	if gone != nil {
		return nil // the last actor ended between the two requests
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "shutdown", Subject: strings.Join(left, ", "), Detail: "not stopped: " + err.Error()}
}

// props is how the library starts an actor of ours.
func (s *System) props(receive Receive) *actor.Props {
	c := &Context{sys: s, receive: receive}
	return actor.PropsFromProducer(func() actor.Actor { return adapted{c} },
		actor.WithMailbox(func() actor.Mailbox { return mailbox{actor.Unbounded()(), c} }))
}

// logPanic logs a panic that was recovered, with the stack of the caller.
func (s *System) logPanic(message string, pid *PID, at string, reason any) {
	s.logger.Error(message, "actor", pid.GetId(), "at", at, "reason", hostcode.Text(reason), "stack", string(debug.Stack()))
}
