package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestBeforeSeesEveryMessageButStopping(t *testing.T) {
	seen := make(chan string, 100)
	s := NewSystem(slog.New(slog.DiscardHandler), Options{Before: func(self *PID, message any) {
		if !strings.Contains(self.Id, "/") {
			t.Errorf("seen: %T to the root", message)
		}
		if strings.Contains(self.Id, "test") && !strings.Contains(self.Id, "child") {
			seen <- fmt.Sprintf("%T", message)
		}
	}})
	timer := make(chan struct{})
	mustSpawn(t, s, func(ctx *Context) {
		switch ctx.Message().(type) {
		case Started:
			ctx.Spawn("child", func(ctx *Context) { ctx.Stop(ctx.Self()) })
		case Terminated:
			ctx.After(time.Nanosecond, 7)
		case int:
			close(timer)
		}
	})
	mustReceive(t, timer)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	close(seen)
	var got []string
	for message := range seen {
		got = append(got, message)
	}
	if want := []string{"system.Started", "system.Terminated", "int"}; !slices.Equal(got, want) {
		t.Errorf("seen: %q, want %q", got, want)
	}
}

func TestAPanicInBeforeIsACrash(t *testing.T) {
	type fault struct{}
	s := NewSystem(slog.New(slog.DiscardHandler), Options{Before: func(_ *PID, message any) {
		if message == (fault{}) {
			panic("injected")
		}
	}})
	crashed := make(chan any, 1)
	parent := mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case string:
			child := ctx.Spawn("child", func(ctx *Context) {
				if ctx.Message() == (fault{}) {
					t.Error("the message was delivered")
				}
			})
			ctx.SendFor(ctx.Sender(), child, fault{})
		case Crashed:
			crashed <- m.Reason
		}
	})
	if _, err := Ask[any](t.Context(), s, parent, "go"); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("the asker: %v", err)
	}
	if reason := mustReceive(t, crashed); reason != "injected" {
		t.Errorf("the parent: %v", reason)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
