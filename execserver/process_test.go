package execserver

import (
	"strings"
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
)

func TestAProcessRunsFromItsStartToItsEnd(t *testing.T) {
	everyTransport(t, Options{}, func(t *testing.T, c *client) {
		c.open("")
		params := shell("p", "echo out; echo err >&2; exit 7")
		if result := c.start(params); result.ProcessID != "p" || result.SandboxType != wire.SandboxNone {
			t.Errorf("got %+v", result)
		}
		c.happened("p", is(wire.ProcessClosed))
		text, seqs := c.output("p")
		if !strings.Contains(text, "out\n") || !strings.Contains(text, "err\n") || len(text) != 8 {
			t.Errorf("got %q", text)
		}
		for i, seq := range seqs {
			if seq != uint64(i+1) {
				t.Errorf("the numbers are %v", seqs)
			}
		}
		if exited := paramsOf(c.happened("p", is(wire.ProcessExited))); exited.ExitCode != 7 {
			t.Errorf("got %+v", exited)
		}
		page := ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p"})
		if !page.Exited || !page.Closed || *page.ExitCode != 7 || page.NextSeq != uint64(len(seqs)+1) || page.Failure != nil || page.SandboxDenied {
			t.Errorf("got %+v", page)
		}
	})
}

// A connection may end while the next one already has the session. The process keeps the next one.
func TestTheEndOfAConnectionDoesNotTakeAProcessFromTheNext(t *testing.T) {
	newConnection := func() *connection {
		return &connection{marked: map[*process]bool{}, work: make(chan struct{}, 1)}
	}
	p, first, second := &process{session: &session{}, past: record{room: wire.RetainedBytes}}, newConnection(), newConnection()
	p.attach(first)
	p.attach(second)
	p.detach(first)
	p.past.addOutput("stdout", []byte("x"))
	p.wake()
	if _, found := p.take(second); !found || len(second.work) != 1 {
		t.Error("the next connection does not get the output")
	}
	p.detach(second)
	p.past.addOutput("stdout", []byte("y"))
	if _, found := p.take(second); found {
		t.Error("a connection that has ended gets output")
	}
}
