package system

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		s := NewSystem(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Options{})
		got := make(chan any, 10)
		start := time.Now()
		pid := mustSpawn(t, s, func(ctx *Context) {
			switch m := ctx.Message().(type) {
			case Started:
				ctx.After(time.Second, time.Second)
				ctx.After(time.Hour, "after the actor's end")
				queued := ctx.After(time.Minute, "cancelled in the mailbox")
				ctx.After(time.Minute-1, func() {
					time.Sleep(time.Second) // the other timer fires meanwhile
					queued.Cancel()
					queued.Cancel()
				})
				(*Timer)(nil).Cancel()
			case func():
				m()
			case time.Duration:
				got <- time.Since(start)
			case string:
				got <- m
			}
		})
		time.Sleep(2 * time.Minute)
		mustEnd(t, s, pid)
		time.Sleep(2 * time.Hour)
		if len(got) != 1 || <-got != time.Second {
			t.Errorf("%d messages too many, or at the wrong time", len(got))
		}
		if strings.Contains(log.String(), "ended actor") {
			t.Errorf("a timer outlived its actor:\n%s", log.String())
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Work that is to begin later begins then, unless it is prevented or its actor ends; an actor whose work has begun is waited for.
func TestWorkThatBeginsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSystem(slog.New(slog.DiscardHandler), Options{})
		got := make(chan any, 10)
		start := time.Now()
		pid := mustSpawn(t, s, func(ctx *Context) {
			switch m := ctx.Message().(type) {
			case Started:
				began := ctx.Later(time.Second, func(context.Context) any {
					time.Sleep(time.Second)
					return time.Since(start)
				})
				prevented := ctx.Later(time.Minute, func(context.Context) any { return "prevented" })
				ctx.Later(3*time.Hour, func(context.Context) any {
					got <- "it began after its actor's end"
					return nil
				})
				ctx.After(1500*time.Millisecond, func() {
					if began.Cancel() {
						t.Error("work that has begun is said to be prevented")
					}
					if !prevented.Cancel() || prevented.Cancel() {
						t.Error("work is prevented once")
					}
					if ctx.working != 3 {
						t.Errorf("%d are counted", ctx.working)
					}
				})
				ctx.Later(time.Hour, func(ctx context.Context) any {
					<-ctx.Done()
					time.Sleep(time.Second)
					got <- time.Since(start)
					return nil
				})
			case func():
				m()
			case time.Duration:
				got <- m
				if len(ctx.timers) != 2 {
					t.Errorf("%d timers", len(ctx.timers))
				}
			case string:
				got <- m
			}
		})
		time.Sleep(2 * time.Hour)
		mustEnd(t, s, pid)
		if err := s.Shutdown(t.Context()); err != nil { // it waits
			t.Error(err)
		}
		if took := time.Since(start); took != 2*time.Hour+time.Second {
			t.Errorf("the system ended after %s", took)
		}
		time.Sleep(2 * time.Hour)
		if len(got) != 2 || <-got != 2*time.Second || <-got != 2*time.Hour+time.Second {
			t.Errorf("%d messages too many, or at the wrong time", len(got))
		}
	})
}

func TestWorkThatBeginsLaterAndPanicsCrashesItsActor(t *testing.T) {
	s := newTestSystem(t)
	crashed := make(chan any, 1)
	mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Spawn("child", func(ctx *Context) {
				if _, ok := ctx.Message().(Started); ok {
					ctx.Later(0, func(context.Context) any { panic("later") })
				}
			})
		case Crashed:
			crashed <- m.Reason
		}
	})
	if reason := mustReceive(t, crashed); reason != "later" {
		t.Errorf("the parent: %v", reason)
	}
}
