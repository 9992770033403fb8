package execbus

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// much is far more than what an outlet does takes here.
const much = 30 * time.Second

// blocked is an outlet whose goroutine waits until release is called.
func blocked(t *testing.T) (o *outlet, release func()) {
	t.Helper()
	o = newOutlet()
	entered, gate := make(chan struct{}), make(chan struct{})
	o.submit(func() {
		close(entered)
		<-gate
	})
	<-entered
	return o, sync.OnceFunc(func() { close(gate) })
}

func TestAnOutletKeepsTheOrderAndDoesEverythingBeforeItEnds(t *testing.T) {
	t.Parallel()
	o, release := blocked(t)
	var done []int
	for i := range 100 {
		o.submit(func() { done = append(done, i) })
	}
	time.AfterFunc(time.Millisecond, release)
	closeAll(much, o)
	if !slices.IsSorted(done) || len(done) != 100 {
		t.Errorf("it did %v", done)
	}
	o.submit(func() { t.Error("something was done after the end") })
	if n := o.dropped.Load(); n != 1 {
		t.Errorf("%d were dropped, want what came after the end", n)
	}
}

func TestAFullOutletDropsAndCounts(t *testing.T) {
	t.Parallel()
	o, release := blocked(t)
	done := 0
	for range outletQueue + 7 {
		o.submit(func() { done++ })
	}
	if n := o.dropped.Load(); n != 7 {
		t.Errorf("%d were dropped, want 7", n)
	}
	release()
	closeAll(much, o)
	if done != outletQueue {
		t.Errorf("%d were done, want %d", done, outletQueue)
	}
}

func TestAnOutletIsBrokenByAPanicOrTheEndOfItsGoroutine(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(){"panic": func() { panic("broken") }, "end": runtime.Goexit} {
		o, release := blocked(t)
		o.submit(act)
		for range 9 {
			o.submit(func() { t.Errorf("%s: something was done behind it", name) })
		}
		release()
		closeAll(much, o)
		o.submit(func() { t.Errorf("%s: something was done later", name) })
		if n := o.dropped.Load(); n != 11 {
			t.Errorf("%s: %d were dropped, want all 11", name, n)
		}
	}
}

func TestAnOutletThatIsBlockedEndsWithoutWaiting(t *testing.T) {
	t.Parallel()
	o, release := blocked(t)
	o.submit(func() { t.Error("it was done after it was given up") })
	closeAll(time.Millisecond, o)
	release()
	<-o.ended
	if n := o.dropped.Load(); n != 1 {
		t.Errorf("%d were dropped, want the one that waited", n)
	}
}

func TestTheHostsLoggerGetsWhatItWants(t *testing.T) {
	t.Parallel()
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	var text strings.Builder
	o := newOutlet()
	logger := newHostLogger(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: &level})), o)
	h := logger.Handler().(hostLog)
	flush := func() {
		flushed := make(chan struct{})
		o.submit(func() { close(flushed) })
		<-flushed
	}
	settle := func() { // the host is asked again, and has answered
		h.level.age = 0
		h.level.ask(h.host)
		flush()
		h.level.age = time.Hour
	}
	settle()
	ctx := context.Background()
	if logger.Enabled(ctx, slog.LevelInfo) || !logger.Enabled(ctx, slog.LevelWarn) {
		t.Error("the level is not the host's")
	}
	logger.Info("unwanted")
	logger.With("a", 1).WithGroup("g").With("b", 2).Warn("wanted", "c", 3)
	level.Set(slog.LevelDebug)
	settle()
	logger.Debug("wanted now")
	flush()
	level.Set(slog.LevelError)
	logger.Warn("unwanted since just now") // the host itself is asked, too
	settle()
	if logger.Enabled(ctx, slog.LevelWarn) {
		t.Error("a level that was raised is not noticed")
	}
	closeAll(much, o)
	if n := strings.Count(text.String(), "\n"); n != 2 || !strings.Contains(text.String(), "msg=wanted a=1 g.b=2 g.c=3\n") ||
		!strings.Contains(text.String(), `msg="wanted now"`) {
		t.Errorf("the log is\n%s", text.String())
	}
	if n := o.dropped.Load(); n != 0 {
		t.Errorf("%d records were dropped", n)
	}
}
