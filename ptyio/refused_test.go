//go:build linux

package ptyio

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestPipesThatThePollerRefusesLoseNothing(t *testing.T) {
	allow := refuse(t)
	events := &lives{over: make(chan struct{})}
	launch := Launch{Argv: []string{"/bin/cat"}, Dir: "/", OpenStdin: true, Events: events.note}
	child, err := Spawn(t.Context(), launch, fakeStarter(func(_ context.Context, start Start) (Leader, error) {
		p, err := os.StartProcess(start.Program, start.Argv, &os.ProcAttr{Files: start.Files, Dir: start.Dir})
		if err != nil {
			return nil, err
		}
		go func() {
			_, _ = p.Wait()
			start.Exited(messages.StatusExited(0), nil)
			start.TreeEnded(messages.TreeReport{})
		}()
		return gone{}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	input := strings.Repeat("0123456789", 30000) // more than the pipes hold
	child.Write([]byte(input), time.Time{}, func(_ Taken, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	child.CloseStdin(func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	<-events.over
	if events.output != input {
		t.Errorf("%d of %d bytes came back", len(events.output), len(input))
	}
	allow()
}
