//go:build linux

package warden

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// tryAll tries to reach each thread of its parent and of the process in $1: by a signal, its environment, its memory and its
// descriptors.
const tryAll = `for p in $PPID "$1"; do for t in /proc/$p/task/*; do
	kill -0 "${t##*/}" 2>/dev/null && echo "signal to $t"
	for door in environ mem maps; do { true <"$t/$door"; } 2>/dev/null && echo "$door of $t"; done
	for fd in 0 1 2 3 4 5 6 7; do [ -e "$t/fd/$fd" ] && echo "descriptor $fd of $t"; done
done; done; echo tried`

// 1,000 commands try to reach the warden and the host while others of several kinds start and the processors are busy. If a thread of
// ours were in a command's Landlock domain for only a moment, some of them would reach it.
func TestNoConfinedCommandReachesTheWardenOrTheHost(t *testing.T) {
	const beside = 8
	for spawnerName, starts := range map[string]int{"warden": 1000, "direct": 200} { // the direct spawner keeps no threads for starts
		t.Run(spawnerName, func(t *testing.T) {
			spawner, err := sandbox.New(sandbox.Options{Direct: spawnerName == "direct", WithoutNamespaces: true})
			must(t, err)
			t.Cleanup(func() { must(t, spawner.Close()) })
			kinds := kindsOfEnclosures(t, spawner)
			if enforced, err := spawner.Can(ptyio.Launch{Sandbox: kinds[0]}); err != nil || strings.Contains(enforced.String(), "signals") {
				t.Skipf("skipped: %v, %v", enforced, err)
			}
			if free := reached(t, spawner, nil); !strings.Contains(free, "signal to") || !strings.Contains(free, "environ of") || !strings.Contains(free, "descriptor 0 of") {
				t.Errorf("without a sandbox it reaches no more than %s", free)
			}
			defer busy()()
			next := make(chan int)
			var workers sync.WaitGroup
			for range beside {
				workers.Go(func() {
					for i := range next {
						if got := reached(t, spawner, kinds[i%len(kinds)]); got != "tried" {
							t.Errorf("start %d: %s", i, got)
						}
					}
				})
			}
			for i := range starts {
				next <- i
			}
			close(next)
			workers.Wait()
		})
	}
}

// kindsOfEnclosures returns enclosures with different filters, for each of which the warden keeps a thread.
func kindsOfEnclosures(t *testing.T, spawner ptyio.Spawner) (kinds []ptyio.Enclosure) {
	t.Helper()
	for _, policy := range []messages.SandboxPolicy{
		{Type: messages.SandboxWorkspaceWrite}, {Type: messages.SandboxWorkspaceWrite, NetworkAccess: true}, {Type: messages.SandboxReadOnly},
	} {
		e, err := spawner.Enclose(t.Context(), ptyio.Confinement{Dir: t.TempDir(), Least: messages.AssuranceConfined, Policy: policy})
		must(t, err)
		t.Cleanup(e.Release)
		kinds = append(kinds, e)
	}
	return kinds
}

// reached returns the list of things that one command has reached, in its own words.
func reached(t *testing.T, spawner ptyio.Spawner, e ptyio.Enclosure) string {
	_, said := begin(t, spawner, ptyio.Launch{Argv: []string{"sh", "-c", tryAll, "sh", strconv.Itoa(os.Getpid())}, Sandbox: e})
	return said()
}

// begin starts a command without a session. said waits until the command and everything that it started has ended, and returns its
// output.
func begin(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch) (child ptyio.Child, said func() string) {
	var text bytes.Buffer
	closed, ended := make(chan struct{}), make(chan struct{})
	l.Env, l.Dir, l.Merged = os.Environ(), "/", true
	l.Events = func(event ptyio.Event) {
		switch event := event.(type) {
		case ptyio.Output:
			text.Write(event.Bytes)
			event.Release()
		case ptyio.Closed:
			close(closed)
		case ptyio.TreeEnded:
			close(ended)
		}
	}
	child, err := spawner.Spawn(t.Context(), l)
	if err != nil {
		t.Error(err)
		return nil, func() string { return "" }
	}
	return child, func() string {
		<-closed
		<-ended
		return strings.TrimSpace(text.String())
	}
}

// busy keeps the processors busy until the function that it returns is called.
func busy() (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() { over.Store(true); all.Wait() }
}
