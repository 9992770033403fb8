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

// One goroutine does a task after the other, and waits for the next.
func TestAnIdleGoroutineHoldsOnToNoTask(t *testing.T) {
	s := newTestSystem(t)
	for range 3 {
		used, done := new(large), make(chan bool)
		s.pool.begin(task{work: func() { used[0] = 1; close(done) }})
		<-done
		freed(t, weak.Make(used), "what work has used")

		actor := newMailbox(&Context{sys: s}, nil)
		s.pool.begin(task{line: []*mailbox{actor}})
		freed(t, weak.Make(actor), "an actor that had a turn")
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
