package system

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestAParentLearnsOfACrashAfterTheChildsOwnMessages(t *testing.T) {
	for _, in := range []any{Started{}, Stopping{}, "message", "work"} {
		t.Run(fmt.Sprintf("%v%T", in, in), func(t *testing.T) {
			s := newTestSystem(t)
			got := make(chan any, 10)
			parent := mustSpawn(t, s, func(ctx *Context) {
				switch m := ctx.Message().(type) {
				case Started:
					self := ctx.Self()
					child := ctx.Spawn("child", func(ctx *Context) {
						if ctx.Message() == "work" {
							ctx.Send(self, "last words")
							ctx.Go(func(context.Context) any { panic("in work") })
						} else if ctx.Message() == in {
							ctx.Send(self, "last words")
							panic(in)
						}
					})
					ctx.Send(child, in)
					if in == (Stopping{}) {
						ctx.Stop(child)
					}
				case string:
					got <- m
				case Crashed:
					got <- "crashed"
				case Terminated:
					got <- "terminated"
				}
			})
			for _, want := range []any{"last words", "crashed", "terminated"} {
				if m := mustReceive(t, got); m != want {
					t.Fatalf("the parent got %v, not %v", m, want)
				}
			}
			mustEnd(t, s, parent)
			if len(got) != 0 {
				t.Errorf("the parent also got %v", <-got)
			}
		})
	}
}

func TestStoppingIsTheLastMessage(t *testing.T) {
	s := newTestSystem(t)
	child, stopping, late := newGated(), make(chan struct{}), make(chan any, 10)
	pid := mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Send(ctx.Spawn("child", child.receive), "block")
		case Stopping:
			close(stopping)
		default:
			late <- m
		}
	})
	<-child.entered
	ended := end(t, s, pid)
	<-stopping
	if _, err := Ask[any](t.Context(), s, pid, "?"); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("ask while a child keeps the actor from ending: %v", err)
	}
	close(child.open)
	mustReceive(t, ended)
	if len(late) != 0 {
		t.Errorf("delivered: %v", <-late)
	}
}

func TestACrashingActorHandsOverItsObligations(t *testing.T) {
	s := newTestSystem(t)
	type owed struct{ at, reason any }
	heard := make(chan any, 10)
	mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			parent := ctx.Self()
			child := ctx.Spawn("child", func(ctx *Context) {
				switch m := ctx.Message().(type) {
				case string:
					panic("deadly")
				case Crashing:
					ctx.Send(parent, owed{m.Message, m.Reason})
					panic("again")
				}
			})
			ctx.Send(child, "at this")
		case owed:
			heard <- m
		case Crashed:
			heard <- m.Reason
		}
	})
	if got := mustReceive(t, heard); got != (owed{"at this", "deadly"}) {
		t.Errorf("its last words: %+v", got)
	}
	if got := mustReceive(t, heard); got != "deadly" {
		t.Errorf("behind them: %v", got)
	}
}
