package process

import (
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestReportsBeforeTheBirthAreBounded(t *testing.T) {
	a := &attempt{number: 1}
	for range 10 * maxEarly {
		for _, event := range []ptyio.Event{ptyio.NewOutput(messages.StreamStdout, []byte("x"), func() {}), ptyio.Exited{}, ptyio.Drained{}, ptyio.Closed{}, ptyio.TreeEnded{}, ptyio.Background{}} {
			a.keepEarly(protocol.ChildEvent{Attempt: 1, Event: event})
		}
	}
	if n := len(a.early.events); n != maxEarly+5 || a.early.lost != 0 { // what comes after Closed is not lost
		t.Errorf("%d events are kept, and %d bytes are lost", n, a.early.lost)
	}
}
