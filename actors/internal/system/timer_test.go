package system

import (
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
