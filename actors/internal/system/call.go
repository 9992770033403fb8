package system

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/execbus/execbus/messages"
)

// Ask sends message to an actor and waits for its reply. It returns the context's error if that ends first, the reply
// itself if the reply is an error, and an error that matches messages.ErrClosed if the actor has ended. It blocks, so it
// must not be used inside of an actor.
func Ask[T any](ctx context.Context, s *System, to *PID, message any) (T, error) {
	call := s.Call(to, message)
	defer call.Close()
	return Await[T](ctx, call)
}

// Await is Call.Wait for a reply of one type.
func Await[T any](ctx context.Context, c *Call) (typed T, err error) {
	reply, err := c.Wait(ctx)
	if err != nil {
		return typed, err
	}
	typed, ok := reply.(T)
	if !ok {
		return typed, &messages.Error{Code: messages.ErrRuntimeFailure, Op: "ask", Detail: "the answer is not of the kind that was expected",
			Hint: fmt.Sprintf("the reply is a %T, not a %T", reply, typed)}
	}
	return typed, nil
}

// Call is a request that is on its way. Only one goroutine at a time may use it, but for PID.
type Call struct {
	system *System
	pid    *PID
	reply  chan any // of size one: the first reply stays, later ones are dropped
	answer any      // the reply, once Wait has received it
}

// Call sends message to an actor and returns at once. The caller must Close the Call.
func (s *System) Call(to *PID, message any) *Call {
	c := &Call{system: s, reply: make(chan any, 1)}
	c.pid, _ = s.lib.ProcessRegistry.Add(callProcess{c.reply}, "call"+s.lib.ProcessRegistry.NextId())
	if to == nil {
		c.reply <- unanswered(nil, message)
		return c
	}
	s.lib.Root.RequestWithCustomSender(to, message, c.pid)
	return c
}

// PID is the sender that the asked actor sees. It names the call in further messages, for example one that withdraws
// the request.
func (c *Call) PID() *PID { return c.pid }

// Wait waits for the reply until ctx ends. After that it may be called again with another context: the request is still
// open, and its reply can still arrive. A reply that has arrived wins over a context that has ended.
func (c *Call) Wait(ctx context.Context) (any, error) {
	if c.answer == nil {
		select {
		case c.answer = <-c.reply:
		default:
			select {
			case c.answer = <-c.reply:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	switch answer := c.answer.(type) {
	case Unanswered:
		return nil, answer.Err
	case error:
		return nil, answer
	default:
		return answer, nil
	}
}

// Close forgets the call; a reply that is still to come is dropped. It may be called more than once.
func (c *Call) Close() { c.system.lib.ProcessRegistry.Remove(c.pid) }

// callProcess is how the library sees a Call. The library's own Future is not used: only its first waiter wakes, and a
// reply races with the timeout.
type callProcess struct{ reply chan<- any }

func (p callProcess) SendUserMessage(_ *PID, message any) {
	select {
	case p.reply <- actor.UnwrapEnvelopeMessage(message):
	default:
	}
}

func (p callProcess) SendSystemMessage(*PID, any) {}

func (p callProcess) Stop(*PID) {}
