//go:build linux

package ptyio_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// typed writes input and returns what was taken of it.
func (r *record) typed(t *testing.T, input string) []messages.InputRun {
	t.Helper()
	came := make(chan ptyio.Taken, 1)
	r.Write([]byte(input), time.Now().Add(patience), func(taken ptyio.Taken, err error) {
		if err != nil || taken.Bytes != len(input) {
			t.Errorf("%q: %d bytes, %v", input, taken.Bytes, err)
		}
		came <- taken
	})
	return receive(t, came).Runs
}

func TestInputIsMarkedByTheModeThatTookIt(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		g := newGate(t)
		r := start(t, spawner, shell(true, fmt.Sprintf(`echo 1 line; read x <%[1]s; stty -echo; echo 2 secret; read x <%[1]s
stty -icanon; echo 3 keys; read x <%[1]s; stty echo; echo 4 shown; read x <%[1]s`, g.path)))
		for _, step := range []struct {
			says string
			kind messages.InputKind
		}{{"1 line", messages.InputLine}, {"2 secret", messages.InputSecret}, {"3 keys", messages.InputKeys}, {"4 shown", messages.InputKeys}} {
			r.awaitOutput(t, step.says)
			if got, want := r.typed(t, "typed\n"), []messages.InputRun{{Kind: step.kind, Bytes: 6}}; !slices.Equal(got, want) {
				t.Errorf("%s: %v", step.says, got)
			}
			g.open(t, "go")
		}
		r.awaitEnd(t)
	})
}

// A terminal handles what it has no room for when the program has read what came before. Until then nobody knows whether it will show it.
func TestInputThatATerminalHasNotHandledIsUnknown(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		g := newGate(t)
		r := start(t, spawner, shell(true, fmt.Sprintf(`echo ready; read x <%s; exec cat >/dev/null`, g.path)))
		r.awaitOutput(t, "ready")
		line := string(letters(999)) + "\n"
		var kinds []messages.InputKind
		for range 5 {
			for _, run := range r.typed(t, line) {
				kinds = append(kinds, run.Kind)
			}
		}
		if kinds[0] != messages.InputLine || kinds[4] != messages.InputUnknown { // the others depend on how fast the kernel is
			t.Errorf("%v", kinds)
		}
		g.open(t, "go")
		r.EndTree(0)
		r.awaitEnd(t)
	})
}

func TestInputOfAPipeIsMarkedAsThat(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, shell(false, "read x; read y"))
		for range 2 {
			if got, want := r.typed(t, "token\n"), []messages.InputRun{{Kind: messages.InputPipe, Bytes: 6}}; !slices.Equal(got, want) {
				t.Errorf("%v", got)
			}
		}
		r.awaitEnd(t)
	})
}
