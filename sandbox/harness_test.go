//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// both runs a test with each spawner, on a terminal and on pipes.
func both(t *testing.T, test func(t *testing.T, spawner ptyio.Spawner, tty bool)) {
	for _, direct := range []bool{false, true} {
		for _, tty := range []bool{false, true} {
			t.Run(spawnerName(direct)+"/"+streamsName(tty), func(t *testing.T) {
				test(t, newSpawner(t, sandbox.Options{Direct: direct, WithoutNamespaces: true}), tty)
			})
		}
	}
}

func spawnerName(direct bool) string {
	if direct {
		return "direct"
	}
	return "warden"
}

func streamsName(tty bool) string {
	if tty {
		return "pty"
	}
	return "pipes"
}

func newSpawner(t testing.TB, options sandbox.Options) ptyio.Spawner {
	t.Helper()
	spawner, err := sandbox.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := spawner.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return spawner
}

// recorder keeps every report of one child.
type recorder struct {
	mu      sync.Mutex
	events  []ptyio.Event // without Output
	times   []time.Time
	output  bytes.Buffer
	changed chan struct{}
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

func (r *recorder) receive(event ptyio.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if output, ok := event.(ptyio.Output); ok {
		r.output.Write(output.Bytes)
		output.Release()
	} else {
		r.events = append(r.events, event)
		r.times = append(r.times, time.Now())
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until the record satisfies a condition. It calls the condition with the lock held.
func (r *recorder) await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		r.mu.Lock()
		done, changed := condition(), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("never happened: %s; record: %v", what, r)
		}
	}
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	for _, event := range r.events {
		fmt.Fprintf(&text, "%T%v ", event, event)
	}
	return fmt.Sprintf("%soutput %.300q", text.String(), r.output.String())
}

func (r *recorder) awaitOutput(t testing.TB, text string) {
	t.Helper()
	r.await(t, "output "+text, func() bool { return strings.Contains(r.output.String(), text) })
}

// find returns the only event of type E, or fails if there are several.
func find[E ptyio.Event](r *recorder) (found E, at int) {
	at = -1
	for i, event := range r.events {
		if e, ok := event.(E); ok {
			if at >= 0 {
				panic(fmt.Sprintf("%T was reported twice", e))
			}
			found, at = e, i
		}
	}
	return found, at
}

func awaitEvent[E ptyio.Event](t testing.TB, r *recorder) E {
	t.Helper()
	var found E
	r.await(t, fmt.Sprintf("%T", found), func() bool {
		var at int
		found, at = find[E](r)
		return at >= 0
	})
	return found
}

func (r *recorder) has(is func(ptyio.Event) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.events, is)
}

// awaitEnd waits for the last event of a child, and checks that the events came once and in order.
func (r *recorder) awaitEnd(t testing.TB) messages.TreeReport {
	t.Helper()
	report := awaitEvent[ptyio.TreeEnded](t, r)
	awaitEvent[ptyio.Closed](t, r)
	awaitEvent[ptyio.Drained](t, r)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, spawned := find[ptyio.Spawned](r)
	_, exited := find[ptyio.Exited](r)
	_, drained := find[ptyio.Drained](r)
	_, ended := find[ptyio.TreeEnded](r)
	if spawned != 0 || exited < spawned || ended < exited || drained < exited {
		t.Errorf("wrong order: %v", r.events)
	}
	return report.TreeReport
}

func (r *recorder) at(is func(ptyio.Event) bool) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[slices.IndexFunc(r.events, is)]
}

func isExited(event ptyio.Event) bool    { _, is := event.(ptyio.Exited); return is }
func isClosed(event ptyio.Event) bool    { _, is := event.(ptyio.Closed); return is }
func isTreeEnded(event ptyio.Event) bool { _, is := event.(ptyio.TreeEnded); return is }

// hurry makes a program with the race detector exit at once. Otherwise each warden and helper would take a second for that.
const hurry = "GORACE=atexit_sleep_ms=0"

func environment(more ...string) []string {
	return append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", "TERM=dumb", "LC_ALL=C", hurry}, more...)
}

func launch(tty bool, argv ...string) ptyio.Launch {
	return ptyio.Launch{Argv: argv, Env: environment(), Dir: "/", TTY: tty, OpenStdin: true}
}

func bash(tty bool, script string, arguments ...string) ptyio.Launch {
	return launch(tty, append([]string{"bash", "-c", script, "bash"}, arguments...)...)
}

// run spawns a child, and fails the test if that fails.
func run(t testing.TB, spawner ptyio.Spawner, l ptyio.Launch) (ptyio.Child, *recorder) {
	t.Helper()
	record := newRecorder()
	l.Events = record.receive
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	child, err := spawner.Spawn(ctx, l)
	if err != nil {
		t.Fatalf("spawn: %v", err)
	}
	return child, record
}

// helper makes a launch of this test binary in one of the roles of helper_test.go.
func helper(t testing.TB, tty bool, role string, more ...string) ptyio.Launch {
	t.Helper()
	l := launch(tty, self(t))
	l.Env = environment(append(more, roleVariable+"="+role)...)
	return l
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
