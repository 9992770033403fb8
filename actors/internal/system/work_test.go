package system

import (
	"context"
	"log/slog"
	goruntime "runtime"
	"testing"
	"time"
)

// owned is a result of work that owns something.
type owned struct{ discarded chan string }

func (o owned) Discard() {
	o.discarded <- "discarded"
	panic("must not harm the sender")
}

func TestWorkEndsWithItsActorAndItsLateResultIsDiscarded(t *testing.T) {
	s := newTestSystem(t)
	started, discarded, got := make(chan struct{}), make(chan string, 1), make(chan any, 1)
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Go(func(context.Context) any { return "result" })
			ctx.Go(func(ctx context.Context) any {
				close(started)
				<-ctx.Done()
				return owned{discarded}
			})
		case string:
			got <- m
		case owned:
			t.Error("delivered to an ended actor")
		}
	})
	mustReceive(t, got)
	<-started
	mustEnd(t, s, pid)
	mustReceive(t, discarded)
}

func TestGoroutinesSendThroughTheSystem(t *testing.T) {
	s := newTestSystem(t)
	got := make(chan any, 1)
	mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			self, system := ctx.Self(), ctx.System()
			ctx.Go(func(context.Context) any {
				system.Send(self, "sent")
				return nil
			})
		case string:
			got <- m
		}
	})
	if m := mustReceive(t, got); m != "sent" {
		t.Errorf("got %v", m)
	}
}

func TestWorkThatEndsItsGoroutineCrashesItsActor(t *testing.T) {
	s := newTestSystem(t)
	crashed := make(chan any, 1)
	mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Spawn("child", func(ctx *Context) {
				if _, ok := ctx.Message().(Started); ok {
					ctx.Go(func(context.Context) any {
						goruntime.Goexit()
						return nil
					})
				}
			})
		case Crashed:
			crashed <- m.Reason
		}
	})
	if reason := mustReceive(t, crashed); reason != "work ended its goroutine" {
		t.Errorf("the parent: %v", reason)
	}
}

func TestAFailureOfDetachedWorkIsAMessage(t *testing.T) {
	s := newTestSystem(t)
	got := make(chan any, 2)
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Detach(func(context.Context) any { panic("host") })
			ctx.Detach(func(context.Context) any { return 7 })
		case WorkFailed:
			got <- m.Err.Error()
		case int:
			got <- m
		case string:
			ctx.Respond("alive")
		}
	})
	if one, other := mustReceive(t, got), mustReceive(t, got); (one != "it panicked: host" || other != 7) && (one != 7 || other != "it panicked: host") {
		t.Errorf("got %v and %v", one, other)
	}
	if reply, err := Ask[string](t.Context(), s, pid, "?"); reply != "alive" || err != nil {
		t.Errorf("the actor answers %q, %v", reply, err)
	}
}

func TestDetachedWorkEndsWithItsActorAndItsLateResultIsDiscarded(t *testing.T) {
	s := newTestSystem(t)
	started, discarded := make(chan struct{}), make(chan string, 1)
	pid := mustSpawn(t, s, func(ctx *Context) {
		if _, ok := ctx.Message().(Started); ok {
			ctx.Detach(func(ctx context.Context) any {
				close(started)
				<-ctx.Done()
				return owned{discarded}
			})
		}
	})
	mustReceive(t, started)
	mustEnd(t, s, pid)
	mustReceive(t, discarded)
}

func TestAShutDownSystemKeepsNoGoroutines(t *testing.T) {
	before := goruntime.NumGoroutine()
	s := NewSystem(slog.New(slog.DiscardHandler), Options{})
	for range 10 {
		if _, err := s.Spawn("idle", func(*Context) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); goruntime.NumGoroutine() > before; goruntime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, and %d before", goruntime.NumGoroutine(), before)
		}
	}
}

func TestNobodyWaitsForDetachedWorkThatNeverReturns(t *testing.T) {
	s := newTestSystem(t)
	never, gone, worked := make(chan struct{}), make(chan struct{}), make(chan any, 1)
	const many = 128
	mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			for range many {
				ctx.Detach(func(context.Context) any {
					<-never
					gone <- struct{}{}
					return nil
				})
			}
			ctx.Go(func(context.Context) any { return "others still work" })
		case string:
			worked <- m
		}
	})
	mustReceive(t, worked)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	close(never)
	for range many {
		mustReceive(t, gone)
	}
}
