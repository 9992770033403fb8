package client

import (
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// The memory of a batch is used again for later output, but not before its owner has released the batch.
func TestABatchDoesNotChangeBeforeItsRelease(t *testing.T) {
	dial, _ := socketWay(t, newServer(t), 0, nil)
	s := begun(t, dial, append(all[:len(all):len(all)], wire.ExtensionRaw))
	type batch struct {
		ptyio.Output
		copied string
	}
	var held []batch
	total, last := 0, byte(0)
	release := func() {
		if b := held[0]; string(b.Bytes) != b.copied {
			t.Errorf("a batch of %d bytes changed before its release", len(b.Bytes))
		}
		held[0].Release()
		held = held[1:]
	}
	l := newLog()
	launch := ptyio.Launch{Argv: []string{"seq", "1", "700000"}, Env: []string{"PATH=/bin:/usr/bin"}, Dir: "/", Merged: true, Events: func(event ptyio.Event) {
		output, is := event.(ptyio.Output)
		if !is {
			l.receive(event)
			return
		}
		held = append(held, batch{output, string(output.Bytes)})
		total, last = total+len(output.Bytes), output.Bytes[len(output.Bytes)-1]
		if len(held) == ptyio.Credits {
			release()
		}
	}}
	child, err := s.Spawn(t.Context(), launch)
	if err != nil {
		t.Fatal(err)
	}
	l.Child = child
	if exited, _ := l.ended(t); exited.Status != messages.StatusExited(0) {
		t.Errorf("%+v", exited)
	}
	for len(held) > 0 {
		release()
	}
	if want := 4_788_895; total != want || last != '\n' {
		t.Errorf("%d of %d bytes", total, want)
	}
}
