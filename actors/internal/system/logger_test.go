package system

import (
	"context"
	"errors"
	"log/slog"
	"os"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// nasty cannot be printed: fmt survives a panic of its method, but not a second one in a method of the panic's value.
type nasty struct{}

func (nasty) Error() string { panic(nasty{}) }

func TestAPanicThatCannotBePrintedIsAnOrdinaryCrash(t *testing.T) {
	s := newTestSystem(t)
	crashed := make(chan any, 3)
	parent := mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Crashed:
			crashed <- m.Reason
		case Terminated:
			crashed <- "terminated"
		case string:
			ctx.SendFor(ctx.Sender(), ctx.Spawn("child", func(ctx *Context) {
				if ctx.Message() == "crash" {
					panic(nasty{})
				}
			}), m)
		}
	})
	if _, err := Ask[any](t.Context(), s, parent, "crash"); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("the asker: %v", err)
	}
	for _, want := range []any{nasty{}, "terminated"} {
		if got := mustReceive(t, crashed); got != want {
			t.Errorf("the parent got a %T, not a %T", got, want)
		}
	}
}

func TestTheLogHasTheStackOfACrashAndNoContentOfMessages(t *testing.T) {
	var log logBuffer
	s := NewSystem(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Options{})
	misbehave(t, s)
	// Nobody waits for detached work, so its text may come a moment later.
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), "detached work failed"); goruntime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("a panic of detached work is not in the log:\n%s", log.String())
		}
	}
	for _, want := range []string{"level=ERROR msg=\"actor crashed\"", "logger_test.go", "message for an ended actor"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("not in the log: %s\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "secret-7381") {
		t.Errorf("the content of a message is in the log:\n%s", log.String())
	}
}

// misbehave crashes actors and work and sends to ended actors in every way; then it shuts the system down.
func misbehave(t *testing.T, s *System) {
	panicked := make(chan struct{})
	mustSpawn(t, s, func(ctx *Context) {
		switch ctx.Message().(type) {
		case Started:
			ctx.Detach(func(context.Context) any { panic("in detached work") })
		case WorkFailed:
			close(panicked)
			ctx.Go(func(context.Context) any { panic("in work") })
		}
	})
	mustReceive(t, panicked)
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch ctx.Message().(type) {
		case Started:
			ctx.Spawn("child", func(ctx *Context) {
				if _, ok := ctx.Message().(Stopping); ok {
					panic("in stopping")
				}
			})
		case string:
			panic("in a message")
		}
	})
	for range 10 {
		_, _ = Ask[any](t.Context(), s, pid, "secret-7381")
		s.Send(pid, "secret-7381")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.Send(pid, "secret-7381")
}

func TestNothingIsPrinted(t *testing.T) {
	if os.Getenv("EXECBUS_TEST_PRINT") != "" {
		misbehave(t, NewSystem(slog.New(slog.DiscardHandler), Options{}))
		if t.Failed() {
			os.Exit(1)
		}
		os.Exit(0) // before the test's own PASS
	}
	if output, err := rerunTest(t, "EXECBUS_TEST_PRINT=1"); err != nil || output != "" {
		t.Errorf("%v, printed: %q", err, output)
	}
}
