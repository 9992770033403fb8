package system

import (
	"context"
	goruntime "runtime"
	"sync/atomic"
	"testing"
)

func TestAnIdleActorJoinsTheLineOfTheSendersWorker(t *testing.T) {
	s := newTestSystem(t)
	names := make(chan string, 4)
	pid := mustSpawn(t, s, func(ctx *Context) {
		if ctx.Message() != "begin" {
			return
		}
		names <- goroutineName()
		ctx.Go(func(context.Context) any {
			names <- goroutineName()
			return nil
		})
		child := ctx.Spawn("child", func(ctx *Context) {
			if ctx.Message() == "hello" {
				names <- goroutineName()
			}
		})
		ctx.Send(child, "hello")
		ctx.Request(child, "hello")
	})
	s.Send(pid, "begin")
	first := mustReceive(t, names)
	for range 3 {
		if name := mustReceive(t, names); name != first {
			t.Errorf("%q and then %q", first, name)
		}
	}
}

// talker never becomes idle until it is told to stop.
func talker(over <-chan struct{}, begin func(ctx *Context)) Receive {
	return func(ctx *Context) {
		switch ctx.Message() {
		case "begin":
			begin(ctx)
			ctx.Send(ctx.Self(), "on")
		case "on":
			select {
			case <-over:
			default:
				ctx.Send(ctx.Self(), "on")
			}
		}
	}
}

func TestABusyActorHoldsUpNeitherItsLineNorItsWork(t *testing.T) {
	for name, begin := range map[string]func(ctx *Context, reached chan struct{}){
		"line": func(ctx *Context, reached chan struct{}) {
			ctx.Send(ctx.Spawn("child", func(ctx *Context) {
				if ctx.Message() == "hello" {
					close(reached)
				}
			}), "hello")
		},
		"work": func(ctx *Context, reached chan struct{}) {
			ctx.Go(func(context.Context) any {
				close(reached)
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestSystem(t)
			reached := make(chan struct{})
			s.Send(mustSpawn(t, s, talker(reached, func(ctx *Context) { begin(ctx, reached) })), "begin")
			mustReceive(t, reached)
		})
	}
}

func TestBothReceiversAreRunByOneGoroutine(t *testing.T) {
	s := newTestSystem(t)
	names := make(chan string, 2)
	receive := func(ctx *Context) {
		if ctx.Message() == "hello" {
			names <- goroutineName()
		}
	}
	one, other := mustSpawn(t, s, receive), mustSpawn(t, s, receive)
	for range 100 {
		s.SendBoth(one, other, "hello")
		if first, second := mustReceive(t, names), mustReceive(t, names); first == second {
			return
		}
		// one of the actors may still have been busy with its start or the message before
	}
	t.Error("two goroutines ran two idle actors")
}

func TestALineHasABound(t *testing.T) {
	w := &worker{}
	for range maxInLine {
		if !w.takes(&mailbox{}) {
			t.Fatalf("a line of %d takes no other", len(w.line))
		}
	}
	if w.takes(&mailbox{}) {
		t.Errorf("a line has %d actors", len(w.line))
	}
	if !w.takesWork(func() {}) || w.takesWork(func() {}) {
		t.Error("a worker has room for one piece of work")
	}
}

func TestMoreActorsThanALineHoldsAllGetTheirMessages(t *testing.T) {
	s := newTestSystem(t)
	reached := make(chan struct{}, 10*maxInLine)
	s.Send(mustSpawn(t, s, func(ctx *Context) {
		if ctx.Message() != "begin" {
			return
		}
		for range cap(reached) {
			ctx.Send(ctx.Spawn("child", func(ctx *Context) {
				if ctx.Message() == "hello" {
					reached <- struct{}{}
				}
			}), "hello")
		}
	}), "begin")
	for range cap(reached) {
		mustReceive(t, reached)
	}
}

// The actor that ends its goroutine hangs, which is forbidden, but the others must not hang with it.
func TestAnActorThatEndsItsGoroutineLeavesTheLineToOthers(t *testing.T) {
	w := newWorkers()
	defer close(w.quit)
	s := newTestSystem(t)
	reached := make(chan struct{})
	other := mustSpawn(t, s, func(ctx *Context) {
		if ctx.Message() == "hello" {
			close(reached)
		}
	})
	worked := make(chan struct{})
	w.begin(task{work: func() {
		one := &worker{pool: w, line: []*mailbox{{}}}
		defer one.leave()
		one.takesWork(func() { close(worked) })
		s.lib.Root.Send(other, &parcel{"hello", one})
		goruntime.Goexit()
	}})
	mustReceive(t, reached)
	mustReceive(t, worked)
}

func TestAMailboxKeepsNoRoomForMessagesThatAreHandled(t *testing.T) {
	m := newMailbox(&Context{}, nil)
	q := <-m.queue
	q.busy = true // otherwise a worker would take the messages
	m.queue <- q
	handled := 0
	take := func() {
		if message, system, there := m.take(); message != handled || system || !there {
			t.Fatalf("message %d: %v, system %v, there %v", handled, message, system, there)
		}
		handled++
	}
	for i := range 100_000 {
		m.PostUserMessage(i)
		if i >= 10 {
			take()
		}
	}
	if len(q.user) > 4*keptRoom {
		t.Errorf("a mailbox with 10 messages has room for %d", len(q.user))
	}
	for i := range 1_000 {
		m.PostUserMessage(100_000 + i)
	}
	for range 1_010 {
		take()
	}
	if n := m.UserMessageCount(); n != 0 || cap(q.user) > keptRoom {
		t.Errorf("an empty mailbox has %d messages and room for %d", n, cap(q.user))
	}
	if _, _, there := m.take(); there || q.busy {
		t.Error("an actor without messages is not idle")
	}
}

func TestACallerRunsBeforeTheRestOfTheLine(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	s := newTestSystem(t)
	var returned atomic.Bool
	first := make(chan bool, 1)
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch ctx.Message() {
		case "answer":
			ctx.Respond("yes")
			ctx.Send(ctx.Self(), "go on")
		case "go on":
			first <- returned.Load()
		}
	})
	before := 0
	const rounds = 100
	for range rounds {
		returned.Store(false)
		if _, err := Ask[string](t.Context(), s, pid, "answer"); err != nil {
			t.Fatal(err)
		}
		returned.Store(true)
		if mustReceive(t, first) {
			before++
		}
	}
	if before < rounds/2 { // the scheduler makes an exception now and then
		t.Errorf("%d callers of %d ran first", before, rounds)
	}
}
