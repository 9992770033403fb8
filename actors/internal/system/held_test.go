package system

import (
	goruntime "runtime"
	"testing"
	"time"
	"weak"
)

// large is a value that the allocator puts into no block with others, which would keep it in memory.
type large [1 << 10]byte

// freed waits until nothing holds on to a value.
func freed[T any](t *testing.T, value weak.Pointer[T], what string) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); value.Value() != nil; goruntime.GC() {
		if time.Now().After(until) {
			t.Fatalf("%s is still in memory", what)
		}
	}
}

// Actors that live do not hold on to the messages that they have sent and got.
func TestAnIdleActorHoldsOnToNoMessage(t *testing.T) {
	s := newTestSystem(t)
	got := make(chan bool, 1)
	other := mustSpawn(t, s, func(ctx *Context) {
		if _, is := ctx.Message().(*large); is {
			got <- true
		}
	})
	for name, send := range map[string]func(ctx *Context, message any){
		"sent":             func(ctx *Context, message any) { ctx.Send(other, message) },
		"requested":        func(ctx *Context, message any) { ctx.Request(other, message) },
		"sent for another": func(ctx *Context, message any) { ctx.SendFor(other, other, message) },
	} {
		made := make(chan weak.Pointer[large], 1)
		pid := mustSpawn(t, s, func(ctx *Context) {
			if ctx.Message() == "begin" {
				message := new(large)
				made <- weak.Make(message)
				send(ctx, message)
			}
		})
		s.Send(pid, "begin")
		mustReceive(t, got)
		freed(t, mustReceive(t, made), "a message that was "+name)
	}
}
