package actors

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// trapping is a program on a terminal that says which keys it gets as signals, and reads lines from when its file is there.
func trapping(s *talk, stty string) (id messages.ProcessID, read func()) {
	s.t.Helper()
	command := onTerminal(quick(`stty -echo ` + stty + `; trap '' INT QUIT TSTP; read -r word <"$GATE" &
		trap 'echo INT' INT; trap 'echo QUIT' QUIT; trap 'echo TSTP' TSTP; echo ready; until wait $!; do :; done; echo reads; exec cat`))
	gate, open := newGate(s.t)
	command.Environment = &messages.EnvironmentPolicy{Set: map[string]string{"GATE": gate}}
	id = s.exec(command).Process
	s.said(id, "ready")
	return id, open
}

func TestAKeyThatIsASignalWaitsForNothing(t *testing.T) {
	much := bytes.Repeat([]byte("much\n"), 20<<10)
	type pressed struct {
		id         messages.ProcessID
		name       string
		read       func()
		first, key waiting
		held       []waiting
	}
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		var all []pressed
		for key, name := range map[string]string{"\x03": "INT", "\x1c": "QUIT", "\x1a": "TSTP"} {
			id, read := trapping(s, "")
			first := s.call(messages.WriteStdin{Process: id, Bytes: much, Patience: new(time.Hour), Yield: new(messages.MaxYield)})
			held := []waiting{
				s.call(messages.WriteStdin{Process: id, Bytes: []byte("held\n"), Patience: new(time.Hour), Yield: new(messages.MaxYield)}),
				s.call(messages.WriteStdin{Process: id, Bytes: []byte("behind\n"), UntilTaken: true}),
				s.call(messages.CloseStdin{Process: id}),
			}
			all = append(all, pressed{id, name, read, first, s.call(messages.WriteStdin{Process: id, Bytes: []byte(key)}), held})
		}
		began := time.Now()
		for _, p := range all {
			if got := s.until(p.key.result(), p.name); got.Taken != 1 || got.InputErr != nil || !strings.Contains(string(got.Output), p.name) {
				t.Errorf("%s: %+v", p.name, got)
			}
			if got := p.first.result(); got.Taken <= 0 || got.Taken >= len(much) || got.Pending != 0 || got.InputErr == nil ||
				got.InputErr.Code != messages.ErrInputNotTaken {
				t.Errorf("%s: the write under way: %+v", p.name, got)
			}
			for _, call := range p.held {
				_, err := call.reply()
				wantError(t, "what was held", err, messages.ErrInputNotTaken)
			}
		}
		if took := time.Since(began); took > messages.MaxYield/2 {
			t.Errorf("it took %v", took)
		}
		for _, p := range all {
			s.typed(p.id, "later\n")
			p.read()
			s.said(p.id, "later")
			if said := s.events.Output(p.id); strings.Contains(said, "much") || strings.Contains(said, "held") {
				t.Errorf("%s: the program has read what was discarded", p.name)
			}
		}
	})
}

// The earlier write has sent its bytes and waits for output; output after the key belongs to the key's answer.
func TestAKeyThatIsASignalEndsTheWaitOfTheWriteBefore(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		id := s.exec(onTerminal(quick("stty -echo; trap 'echo INT' INT; echo ready; while :; do if read -t 0; then read -r x; echo got $x; else sleep 0.01; fi; done"))).Process
		s.said(id, "ready")
		first := s.call(messages.WriteStdin{Process: id, Bytes: []byte("a\n"), Yield: new(messages.MaxYield)})
		held := s.call(messages.WriteStdin{Process: id, Bytes: []byte("b\n"), Yield: new(messages.MaxYield)})
		s.said(id, "got a")
		if got := s.writeUntil(id, "\x03", "INT"); !strings.Contains(string(got.Output), "INT") || strings.Contains(string(got.Output), "got") {
			t.Errorf("%q", got.Output)
		}
		if got := first.result(); !strings.Contains(string(got.Output), "got a") || strings.Contains(string(got.Output), "INT") || got.Taken != 2 {
			t.Errorf("%q", got.Output)
		}
		_, err := held.reply()
		wantError(t, "what was held", err, messages.ErrInputNotTaken)
	})
}

func TestAKeyThatIsNoSignalWaitsForItsTurn(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	for _, stty := range []string{"-isig", "intr ^E"} {
		id, read := trapping(s, stty)
		first := s.call(messages.WriteStdin{Process: id, Bytes: []byte("first\n")})
		key := s.call(messages.WriteStdin{Process: id, Bytes: []byte("\x03"), UntilTaken: true})
		typed := s.call(messages.WriteStdin{Process: id, Bytes: []byte("last\n"), UntilTaken: true})
		first.result()
		key.result()
		typed.result()
		read()
		s.said(id, "first\r\n\x03last")
	}
}

func TestAKeyDiscardsNothingWhereTheTerminalWouldNot(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id, read := trapping(s, "noflsh")
	much := bytes.Repeat([]byte("much\n"), 4<<10)
	first := s.call(messages.WriteStdin{Process: id, Bytes: much, Patience: new(time.Hour), Yield: new(messages.MaxYield)})
	held := s.call(messages.WriteStdin{Process: id, Bytes: []byte("held\n"), Patience: new(time.Hour)})
	if got := s.writeUntil(id, "\x03", "INT"); !strings.Contains(string(got.Output), "INT") {
		t.Errorf("%+v", got)
	}
	read()
	if got := first.result(); got.Taken != len(much) || got.InputErr != nil {
		t.Errorf("%+v", got)
	}
	if got := held.result(); got.Taken != 5 || got.InputErr != nil {
		t.Errorf("%+v", got)
	}
	s.said(id, "held")
}

// newGate is a named pipe; open lets its reader go on.
func newGate(t testing.TB) (path string, open func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		if err := os.WriteFile(path, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
}
