package execserver

import (
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/ptyio"
)

func TestARecordIsBounded(t *testing.T) {
	small, many := record{room: 10}, record{room: wire.FlowBytes}
	for range 3 {
		small.addOutput("pty", []byte("1234"))
	}
	small.add(entry{method: wire.ProcessClosed})
	if small.kept != 8 || len(small.entries) != 3 || small.now != (position{seq: 4, bytes: 12, chunks: 3}) {
		t.Errorf("%d bytes in %d entries, at %+v", small.kept, len(small.entries), small.now)
	}
	if small.upTo(3) != (position{seq: 3, bytes: 12, chunks: 3}) || small.hasOutput(3) || !small.hasOutput(2) || len(small.output(0, 0)) != 1 {
		t.Errorf("%+v", small.entries)
	}
	for range wire.RetainedChunks + 5 {
		many.addOutput("pty", []byte("x"))
	}
	if len(many.entries) != wire.RetainedChunks || many.kept != wire.RetainedChunks {
		t.Errorf("%d bytes in %d entries", many.kept, len(many.entries))
	}
	if windowChunks+ptyio.Credits+maxMarks > wire.RetainedChunks {
		t.Error("what a client waits for is dropped")
	}
}

// A client that knows of the exit waits for what comes after it.
func TestAnExitIsNewsOnce(t *testing.T) {
	p := &process{exited: &wire.ExitedParams{Seq: 3}}
	if !p.hasNews(2) || p.hasNews(3) {
		t.Error("an exit is no news, or is news again")
	}
}
