package system

import (
	"errors"
	"fmt"
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
			ctx.Forward(server, n+1)
		}
	})
	if n, err := Ask[int](t.Context(), s, forwarder, 1); n != 2 || err != nil {
		t.Errorf("a forwarded request: %v, %v", n, err)
	}
}
