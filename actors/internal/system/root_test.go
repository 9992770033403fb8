package system

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestShutdownNamesWhatIsLeftAndCanBeRepeated(t *testing.T) {
	s := newTestSystem(t)
	g, workStarted, workEnd := newGated(), make(chan struct{}), make(chan struct{})
	stuck := mustSpawn(t, s, g.receive)
	s.Send(stuck, "block")
	<-g.entered
	worker := mustSpawn(t, s, func(ctx *Context) {
		if _, ok := ctx.Message().(Started); ok {
			ctx.Go(func(context.Context) any {
				close(workStarted)
				<-workEnd
				return nil
			})
		}
	})
	<-workStarted
	mustEnd(t, s, worker)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Shutdown(ended)
	if err == nil || !strings.Contains(err.Error(), stuck.Id) || !strings.Contains(err.Error(), worker.Id) {
		t.Errorf("Shutdown does not name %s and %s: %v", stuck.Id, worker.Id, err)
	}
	if _, err := s.Spawn("late", echo); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("Spawn during Shutdown: %v", err)
	}
	close(g.open)
	for deadline := time.Now().Add(10 * time.Second); err != nil && strings.Contains(err.Error(), stuck.Id); err = s.Shutdown(ended) {
		if time.Now().After(deadline) {
			t.Fatalf("%s has not ended: %v", stuck.Id, err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), worker.Id) {
		t.Errorf("Shutdown does not name the work of %s alone: %v", worker.Id, err)
	}
	close(workEnd)
	for range 3 {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Spawn("late", echo); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("Spawn after Shutdown: %v", err)
	}
}
