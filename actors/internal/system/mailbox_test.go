package system

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestRequestsInTheMailboxOfAnEndedActorAreAnswered(t *testing.T) {
	for _, panics := range []bool{false, true} {
		t.Run(fmt.Sprintf("panics=%v", panics), func(t *testing.T) {
			s := newTestSystem(t)
			g := newGated()
			g.panics = panics
			pid := mustSpawn(t, s, g.receive)
			current := s.Call(pid, "block")
			defer current.Close()
			<-g.entered
			queued := make([]*Call, 100)
			for i := range queued {
				queued[i] = s.Call(pid, i)
				defer queued[i].Close()
			}
			if !panics {
				s.lib.Root.Stop(pid)
			}
			close(g.open)
			for i, call := range queued {
				if _, err := call.Wait(t.Context()); !errors.Is(err, messages.ErrClosed) {
					t.Fatalf("request %d: %v", i, err)
				}
			}
			_, err := current.Wait(t.Context())
			if panics != errors.Is(err, messages.ErrRuntimeFailure) {
				t.Errorf("the request being handled: %v", err)
			}
			if _, err := Ask[any](t.Context(), s, pid, "later"); !errors.Is(err, messages.ErrClosed) {
				t.Errorf("a later request: %v", err)
			}
		})
	}
}

// The library loses a message whose sender found the actor alive and put it into the mailbox after the end.
func TestNoRequestIsLostInTheRaceWithTheEnd(t *testing.T) {
	s := newTestSystem(t)
	for range 300 {
		pid := mustSpawn(t, s, func(ctx *Context) {
			ctx.Respond("alive")
			if ctx.Message() == "stop" {
				ctx.Stop(ctx.Self())
			}
		})
		failed := make(chan error, 4)
		for range cap(failed) {
			go func() {
				for {
					_, err := Ask[string](t.Context(), s, pid, "?")
					if err != nil {
						failed <- err
						return
					}
				}
			}()
		}
		s.Send(pid, "stop")
		for range cap(failed) {
			if err := mustReceive(t, failed); !errors.Is(err, messages.ErrClosed) {
				t.Fatal(err)
			}
		}
	}
}

func BenchmarkTell(b *testing.B) {
	s := NewSystem(slog.New(slog.DiscardHandler), Options{})
	done := make(chan struct{})
	n := 0
	pid := mustSpawn(b, s, func(ctx *Context) {
		if _, ok := ctx.Message().(int); ok {
			if n++; n == b.N {
				close(done)
			}
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		s.Send(pid, 1)
	}
	<-done
}

func TestAFailureThatEscapesIsACrash(t *testing.T) {
	s := newTestSystem(t)
	crashed := make(chan any, 1)
	mustSpawn(t, s, func(ctx *Context) {
		switch m := ctx.Message().(type) {
		case Started:
			ctx.Spawn("child", func(ctx *Context) { invoker{c: ctx}.EscalateFailure("escaped", nil) })
		case Crashed:
			crashed <- m.Reason
		}
	})
	if reason := mustReceive(t, crashed); reason != "escaped" {
		t.Errorf("the parent: %v", reason)
	}
}
