package actors

import (
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

func TestMergedOutputComesInTheOrderOfTheWrites(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		for range 20 {
			command := shell("for i in {1..20}; do echo out; echo err >&2; echo out2; done")
			command.Merged = true
			got := s.exec(command)
			if want := strings.Repeat("out\nerr\nout2\n", 20); string(got.Output) != want {
				t.Errorf("%q", got.Output)
			}
			s.ended(got.Process)
			for _, delta := range probe.Of(s.events, func(e messages.OutputDelta) bool { return e.Process == got.Process }) {
				if delta.Stream != messages.StreamStdout {
					t.Errorf("a delta of %s", delta.Stream)
				}
			}
		}
		command := onTerminal(shell("echo out; echo err >&2"))
		command.Merged = true
		if got := s.exec(command); string(got.Output) != "out\r\nerr\r\n" {
			t.Errorf("on a terminal: %q", got.Output)
		}
	})
}
