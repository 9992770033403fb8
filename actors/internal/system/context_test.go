package system

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestRequestsOfActors(t *testing.T) {
	s := newTestSystem(t)
	got := make(chan any, 10)
	nobody := s.lib.NewLocalPID("nobody")
	server := mustSpawn(t, s, echo)
	mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Watch(nobody)
			ctx.Request(server, "hello")
			ctx.Request(nobody, "anyone?")
			ctx.Send(server, "no reply, please")
		case Terminated:
			got <- m.PID.Id
		case Unanswered:
			got <- fmt.Sprint(m.To.Id, m.Message, errors.Is(m.Err, messages.ErrClosed))
		default:
			got <- m
		}
	})
	seen := map[any]bool{}
	for range 3 {
		seen[mustReceive(t, got)] = true
	}
	if !seen["hello"] || !seen["nobody"] || !seen["nobodyanyone?true"] {
		t.Errorf("got %v", seen)
	}
	forwarder := mustSpawn(t, s, func(ctx *Context) {
		if n, ok := ctx.Message().(int); ok {
			ctx.SendFor(ctx.Sender(), server, n+1)
		}
	})
	if n, err := Ask[int](t.Context(), s, forwarder, 1); n != 2 || err != nil {
		t.Errorf("a forwarded request: %v, %v", n, err)
	}
}

func TestAMessageThatAnActorDoesNotKnowIsRefused(t *testing.T) {
	told := make(chan any, 2)
	s := NewSystem(slog.New(slog.DiscardHandler), Options{Unexpected: func(_ *PID, message any) { told <- message }})
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch ctx.Message().(type) {
		case Started, Stopping:
		default:
			ctx.Unexpected()
		}
	})
	if _, err := Ask[any](t.Context(), s, pid, 7); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("the asker: %v", err)
	}
	lost := owned{make(chan string, 1)}
	s.Send(pid, lost)
	mustReceive(t, lost.discarded)
	if first, second := <-told, <-told; first != 7 || second != lost {
		t.Errorf("told of %v and %v", first, second)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
