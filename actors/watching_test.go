package actors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// Those who see a screen are counted over all attempts, and say positions by the offsets of all output.
func TestASecondAttemptIsWatchedToo(t *testing.T) {
	s, _ := inSandbox(t, retries, noWrite)
	command := onTerminal(shell(`if [ -n "$CONFINED" ]; then printf 12345; until [ -e go ]; do sleep 0.01; done; exit 7; fi
		stty raw -echo; printf ab; until [ -e on ]; do sleep 0.01; done; printf '\033[6n'; dd bs=1 count=6 2>/dev/null | tail -c 5; printf '\033[6n'; dd bs=1 count=6 2>/dev/null | tail -c 5; printf '\033[6nready'; read -r x`))
	call := s.call(command)
	id := probe.Expect[messages.ExecStarted](s.events, patience, nil).Process
	watch := func(over bool) {
		must[protocol.Done](s.host, s.supervisor, messages.WatchTerminal{Process: id, Over: over})
	}
	got := ""
	sees := func(text string) {
		t.Helper()
		for !strings.HasPrefix(got, text) {
			if !strings.HasPrefix(text, got) {
				t.Fatalf("%q, want %q", got, text)
			}
			got += string(probe.Expect[messages.OutputDelta](s.events, patience, nil).Bytes)
		}
		got = got[len(text):]
	}
	place := func(offset int64, row, col uint16) {
		must[protocol.Done](s.host, s.supervisor, messages.PlaceCursor{Process: id, Positions: []messages.CursorPosition{{Offset: offset, Row: row, Col: col}}})
	}
	make := func(file string) {
		if err := os.WriteFile(filepath.Join(s.dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sees("12345")
	watch(false)
	watch(false)
	watch(true)
	make("go")
	sees("ab") // it was born, and is watched
	make("on")
	sees("\x1b[6n")
	place(6, 9, 9) // that would be the offset in this attempt
	place(11, 2, 3)
	sees("[2;3R")
	sees("\x1b[6n")
	watch(true) // the last one goes: the answer is that of a terminal that nobody watches
	sees("[1;1R")
	sees("\x1b[6nready")
	must[*messages.EndRecord](s.host, s.supervisor, messages.Terminate{Process: id})
	call.result()
}
