//go:build linux

package ptyio_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// deaf is a program that reads nothing until it is told to, and then everything. It prints the keys that it gets as signals.
func deaf(t *testing.T, spawner ptyio.Spawner, stty string) (*record, *gate) {
	t.Helper()
	g := newGate(t)
	// The shell waits rather than reads: a key that came between its check for signals and a read would have to wait for the
	// end of the read.
	r := start(t, spawner, shell(true, fmt.Sprintf(`stty %s -echo -onlcr
trap '' INT QUIT TSTP; read word <%s &
trap 'echo INT' INT; trap 'echo QUIT' QUIT; trap 'echo TSTP' TSTP; echo ready; until wait $!; do :; done; echo reads; exec cat`, stty, g.path)))
	r.awaitOutput(t, "ready")
	return r, g
}

var keys = map[string]string{"\x03": "INT", "\x1c": "QUIT", "\x1a": "TSTP"}

func TestAKeyThatIsASignalActsAtOnceWhereInputIsNotTaken(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		for _, stty := range []string{"icanon", "-icanon"} {
			for key, name := range keys {
				r, g := deaf(t, spawner, stty)
				much := bytes.Repeat([]byte("held\n"), 100<<10)
				under := r.send(t, much, 0)
				behind := r.send(t, []byte("behind\n"), time.Hour)
				if got := receive(t, r.send(t, []byte(key), time.Hour)); got.taken != 1 || got.err != nil {
					t.Fatalf("%s %s: %+v", stty, name, got)
				}
				first, second := receive(t, under), receive(t, behind)
				mustBe(t, first.err, messages.ErrInputNotTaken)
				mustBe(t, second.err, messages.ErrInputNotTaken)
				if first.taken == 0 || first.taken >= len(much) || second.taken != 0 {
					t.Errorf("%s %s: taken %d and %d", stty, name, first.taken, second.taken)
				}
				r.awaitOutput(t, name)
				r.write(t, "later\n")
				g.open(t, "read")
				r.awaitOutput(t, "later")
				if said := r.text(); strings.Contains(said, "held") || strings.Contains(said, "behind") {
					t.Errorf("%s %s: what was typed before was read: %d bytes", stty, name, len(said))
				}
				r.EndTree(0)
			}
		}
	})
}

// A terminal takes far more bytes than it examines. It would never examine a key that comes after them.
func TestAKeyThatIsASignalActsAtOnceWhereTheTerminalIsFull(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		for _, stty := range []string{"icanon", "-icanon"} {
			r, g := deaf(t, spawner, stty)
			r.write(t, strings.Repeat("held\n", 2000))
			r.write(t, "\x03")
			r.awaitOutput(t, "INT")
			r.write(t, "later\n")
			g.open(t, "read")
			r.awaitOutput(t, "later")
			if said := r.text(); strings.Contains(said, "held") {
				t.Errorf("%s: what was typed before was read: %d bytes", stty, len(said))
			}
		}
	})
}

func TestAKeyDiscardsNothingWhereTheTerminalWouldNot(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r, g := deaf(t, spawner, "noflsh")
		much := bytes.Repeat([]byte("held\n"), 20<<10)
		under := r.send(t, much, 0)
		if got := receive(t, r.send(t, []byte("\x03"), time.Hour)); got.taken != 1 || got.err != nil {
			t.Fatalf("%+v", got)
		}
		r.awaitOutput(t, "INT")
		g.open(t, "read")
		if got := receive(t, under); got.taken != len(much) || got.err != nil {
			t.Errorf("%+v", got)
		}
		r.await(t, "all of it", func() bool { return strings.Count(r.main(), "held\n") == len(much)/5 })
	})
}

func TestAKeyThatIsNoSignalWaitsItsTurn(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		inputs := []struct{ stty, key string }{{"-isig", "\x03"}, {"icanon intr ^E", "\x03"}, {"icanon", "x"}, {"icanon", "\x03\n"}}
		for _, input := range inputs {
			r, g := deaf(t, spawner, input.stty)
			much := bytes.Repeat([]byte("held\n"), 20<<10)
			under := r.send(t, much, 0)
			key := r.send(t, []byte(input.key), 0)
			g.open(t, "read")
			for _, results := range []<-chan outcome{under, key} {
				if got := receive(t, results); got.err != nil {
					t.Errorf("%+v: %v", input, got.err)
				}
			}
			r.EndTree(0)
		}
	})
}

func TestAKeyThatIsASignalGoesThroughATerminalWhoseInputIsTaken(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, shell(true, "stty echo; trap 'echo INT' INT; echo ready; while :; do read line; done"))
		r.awaitOutput(t, "ready")
		r.write(t, "unfinished")
		r.write(t, "\x03")
		r.write(t, "\n") // a shell that is just beginning to read runs its trap after that
		r.awaitOutput(t, "INT")
		r.awaitOutput(t, "^C") // the terminal's own echo of the key, which may come after what the shell prints at the signal
	})
}

func TestAWriteTellsHowMuchOfItIsTaken(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		if isRemote(spawner) {
			t.Skip("a server tells only the outcome")
		}
		g := newGate(t)
		r := start(t, spawner, raw(tty, fmt.Sprintf("echo ready; read n <%s; head -c $n >/dev/null; echo took; read n <%[1]s; exec cat >/dev/null", g.path)))
		r.awaitOutput(t, "ready")
		text := letters(512 << 10)
		results := make(chan outcome, 2)
		done := func(taken ptyio.Taken, err error) { results <- outcome{taken.Bytes, err} }
		taken := r.Write(text, time.Time{}, done)
		behind := r.Write([]byte("behind"), time.Time{}, done)
		held := 0
		eventually(t, "the pipe or the terminal is full", func() bool {
			before := held
			held = taken()
			return held > 0 && held == before
		})
		g.open(t, 30000)
		r.awaitOutput(t, "took")
		eventually(t, "as much again is taken", func() bool { return taken() >= held+20000 })
		if more := taken(); more >= len(text) || behind() != 0 || len(results) > 0 {
			t.Errorf("%d, and of the one behind %d; %d outcomes", more, behind(), len(results))
		}
		g.open(t, "all")
		if got := receive(t, results); got.taken != len(text) || taken() != len(text) {
			t.Errorf("%+v, %d", got, taken())
		}
		if got := receive(t, results); got.taken != 6 || behind() != 6 {
			t.Errorf("%+v, %d", got, behind())
		}
	})
}
