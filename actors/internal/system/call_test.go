package system

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestAskReturnsTheReply(t *testing.T) {
	s := newTestSystem(t)
	pid := mustSpawn(t, s, echo)
	if got, err := Ask[int](t.Context(), s, pid, 7); got != 7 || err != nil {
		t.Errorf("Ask = %v, %v", got, err)
	}
	if _, err := Ask[int](t.Context(), s, pid, messages.ErrLimitReached); !errors.Is(err, messages.ErrLimitReached) {
		t.Errorf("a reply that is an error: %v", err)
	}
	if _, err := Ask[int](t.Context(), s, pid, "seven"); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("a reply of another type: %v", err)
	}
}

func TestCallCanStillBeAnsweredAfterItsContextEnded(t *testing.T) {
	s := newTestSystem(t)
	type cancelWait struct{ call *PID }
	pid := mustSpawn(t, s, func(ctx *Context) {
		if m, ok := ctx.Message().(cancelWait); ok {
			ctx.Send(m.call, "cancelled, nothing taken")
			ctx.Send(m.call, "a second reply")
		}
	})
	call := s.Call(pid, "a question nobody answers")
	defer call.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := call.Wait(ended); err != context.Canceled {
		t.Errorf("Wait with an ended context: %v", err)
	}
	s.Send(pid, cancelWait{call.PID()})
	for range 2 {
		if got, err := call.Wait(t.Context()); got != "cancelled, nothing taken" || err != nil {
			t.Errorf("Wait = %v, %v", got, err)
		}
	}
}

func TestAReplyThatIsThereWinsOverAnEndedContext(t *testing.T) {
	s := newTestSystem(t)
	pid := mustSpawn(t, s, echo)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 50 {
		call := s.Call(pid, n)
		if _, err := Ask[string](t.Context(), s, pid, "the call before has been answered"); err != nil {
			t.Fatal(err)
		}
		if got, err := call.Wait(ended); got != n || err != nil {
			t.Errorf("Wait = %v, %v", got, err)
		}
		call.Close()
	}
}

func TestAnAskOfNoActorFailsAtOnce(t *testing.T) {
	s := newTestSystem(t)
	ended := mustSpawn(t, s, echo)
	mustEnd(t, s, ended)
	for _, to := range []*PID{nil, ended, {Address: ended.Address, Id: ended.Id}, s.lib.NewLocalPID("never was")} {
		if _, err := Ask[any](t.Context(), s, to, "?"); !errors.Is(err, messages.ErrClosed) {
			t.Errorf("ask %v: %v", to, err)
		}
	}
}

func BenchmarkAsk(b *testing.B) {
	s := NewSystem(slog.New(slog.DiscardHandler), Options{})
	pid := mustSpawn(b, s, echo)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Ask[int](b.Context(), s, pid, 1); err != nil {
			b.Fatal(err)
		}
	}
}
