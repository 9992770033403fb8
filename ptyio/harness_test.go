//go:build linux

package ptyio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/execserver/client"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// patience bounds every wait. Only a failure reaches it.
const patience = time.Minute

// newSpawner makes a spawner of a name.
func newSpawner(t *testing.T, name string) ptyio.Spawner {
	t.Helper()
	spawner, err := sandbox.New(sandbox.Options{Direct: name != "warden"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := spawner.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if name != "remote" {
		return spawner
	}
	server, err := execserver.NewServer(spawner, execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	here, there := net.Pipe()
	go func() { _ = server.ServeStream(context.Background(), there, there) }() // ends with the client
	remote, err := client.Connect(t.Context(), here, here, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remote.Close(); err != nil {
			t.Errorf("Close of the client: %v", err)
		}
	})
	return remote
}

// isRemote reports whether a spawner of newSpawner has its children on the other side of a connection.
func isRemote(spawner ptyio.Spawner) bool {
	_, here := spawner.(ptyio.Prompt)
	return !here
}

// both runs a test with each of our own spawners, and with one whose children a server runs.
func both(t *testing.T, test func(t *testing.T, spawner ptyio.Spawner)) {
	for _, name := range []string{"direct", "warden", "remote"} {
		t.Run(name, func(t *testing.T) { test(t, newSpawner(t, name)) })
	}
}

// everywhere runs a test with each spawner, on a terminal and on pipes with an open input.
func everywhere(t *testing.T, test func(t *testing.T, spawner ptyio.Spawner, tty bool)) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		t.Run("pty", func(t *testing.T) { test(t, spawner, true) })
		t.Run("pipes", func(t *testing.T) { test(t, spawner, false) })
	})
}

var environment = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TERM=dumb", "LC_ALL=C", "PS1=$ "}

func launch(tty bool, argv ...string) ptyio.Launch {
	return ptyio.Launch{Argv: argv, Env: environment, Dir: "/", TTY: tty, OpenStdin: !tty, Grace: new(100 * time.Millisecond)}
}

func shell(tty bool, script string) ptyio.Launch { return launch(tty, "sh", "-c", script) }

// record keeps the reports of one child.
type record struct {
	ptyio.Child
	mu       sync.Mutex
	changed  chan struct{}
	output   map[messages.Stream]*bytes.Buffer
	batches  int
	holding  bool // outputs are not released
	held     []ptyio.Output
	mostHeld int
	events   []ptyio.Event // without Output
	times    []time.Time
	tail     bool // there was output after Closed
}

func start(t testing.TB, spawner ptyio.Spawner, launch ptyio.Launch) *record {
	t.Helper()
	return startHolding(t, spawner, launch, false)
}

func startHolding(t testing.TB, spawner ptyio.Spawner, launch ptyio.Launch, holding bool) *record {
	t.Helper()
	r := &record{changed: make(chan struct{}), output: map[messages.Stream]*bytes.Buffer{}, holding: holding}
	for _, stream := range []messages.Stream{messages.StreamStdout, messages.StreamStderr, messages.StreamPTY} {
		r.output[stream] = &bytes.Buffer{}
	}
	launch.Events = r.receive
	child, err := spawner.Spawn(t.Context(), launch)
	if err != nil {
		t.Fatal(err)
	}
	r.Child = child
	t.Cleanup(child.Abandon)
	return r
}

func (r *record) receive(event ptyio.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if output, ok := event.(ptyio.Output); ok {
		r.output[output.Stream].Write(output.Bytes)
		r.batches++
		r.tail = r.tail || find[ptyio.Closed](r) >= 0
		if r.holding {
			r.held = append(r.held, output)
			r.mostHeld = max(r.mostHeld, len(r.held))
		} else {
			output.Release()
		}
	} else {
		r.events = append(r.events, event)
		r.times = append(r.times, time.Now())
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// release gives back all batches that are held, and from now on each one at once.
func (r *record) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holding = false
	for _, output := range r.held {
		output.Release()
	}
	r.held = nil
}

// most returns the largest number of batches that were out at once.
func (r *record) most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mostHeld
}

// find returns the place of the first event of a type, or -1. The caller holds the lock.
func find[E ptyio.Event](r *record) int {
	for i, event := range r.events {
		if _, ok := event.(E); ok {
			return i
		}
	}
	return -1
}

// await waits for a condition. It calls the condition with the lock held.
func (r *record) await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		r.mu.Lock()
		over, changed := condition(), r.changed
		r.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("never happened: %s; %v", what, r)
		}
	}
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("events %T%v, output %.200q %.200q %.200q", r.events, r.events, r.output[messages.StreamPTY], r.output[messages.StreamStdout],
		r.output[messages.StreamStderr])
}

func (r *record) awaitOutput(t testing.TB, text string) {
	t.Helper()
	r.await(t, fmt.Sprintf("output %q", text), func() bool { return strings.Contains(r.main(), text) })
}

// main returns the output on the terminal or on stdout. The caller holds the lock.
func (r *record) main() string {
	return r.output[messages.StreamPTY].String() + r.output[messages.StreamStdout].String()
}

func (r *record) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.main()
}

// happened waits for an event and returns it and its time.
func happened[E ptyio.Event](t testing.TB, r *record) (E, time.Time) {
	t.Helper()
	var found E
	var at time.Time
	r.await(t, fmt.Sprintf("%T", found), func() bool {
		i := find[E](r)
		if i >= 0 {
			found, at = r.events[i].(E), r.times[i]
		}
		return i >= 0
	})
	return found, at
}

func has[E ptyio.Event](r *record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return find[E](r) >= 0
}

// awaitEnd waits for the last event and checks the contract on their order.
func (r *record) awaitEnd(t testing.TB) messages.ExitStatus {
	t.Helper()
	exited, _ := happened[ptyio.Exited](t, r)
	happened[ptyio.Drained](t, r)
	happened[ptyio.Closed](t, r)
	happened[ptyio.TreeEnded](t, r)
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]int{}
	for _, event := range r.events {
		seen[fmt.Sprintf("%T", event)]++
	}
	for name, times := range seen {
		if times != 1 {
			t.Errorf("%s was reported %d times", name, times)
		}
	}
	gone := max(find[ptyio.Closed](r), find[ptyio.TreeEnded](r))
	ordered := find[ptyio.Spawned](r) == 0 && find[ptyio.Exited](r) < find[ptyio.Drained](r) &&
		find[ptyio.Exited](r) < find[ptyio.TreeEnded](r) && gone == len(r.events)-1 && !r.tail
	if !ordered {
		t.Errorf("wrong order: %T (output after Closed: %v)", r.events, r.tail)
	}
	return exited.Status
}

// outcome is the result of a write.
type outcome struct {
	taken int
	err   error
}

// send writes, and returns a channel for the outcome. A second outcome fails the test.
func (r *record) send(t testing.TB, input []byte, wait time.Duration) <-chan outcome {
	t.Helper()
	var deadline time.Time
	if wait > 0 {
		deadline = time.Now().Add(wait)
	}
	results := make(chan outcome, 1)
	r.Write(input, deadline, func(taken ptyio.Taken, err error) {
		select {
		case results <- outcome{taken.Bytes, err}:
		default:
			t.Error("done was called twice")
		}
	})
	return results
}

func receive[T any](t testing.TB, results <-chan T) T {
	t.Helper()
	select {
	case result := <-results:
		return result
	case <-time.After(patience):
		t.Fatal("done was never called")
		panic("unreachable")
	}
}

// write fails the test unless everything is taken.
func (r *record) write(t testing.TB, input string) {
	t.Helper()
	if got := receive(t, r.send(t, []byte(input), patience)); got.taken != len(input) || got.err != nil {
		t.Fatalf("write of %d bytes took %d: %v", len(input), got.taken, got.err)
	}
}

func (r *record) closeStdin(t testing.TB) error {
	t.Helper()
	results := make(chan error, 1)
	r.CloseStdin(func(err error) { results <- err })
	return receive(t, results)
}

func mustBe(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want one that matches %v", got, want)
	}
}

// gate is a named pipe between the test and a child.
type gate struct {
	path string
	file *os.File
}

func newGate(t testing.TB) *gate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &gate{path, file}
}

// open sends a word to a child that reads from the gate, which lets it go on.
func (g *gate) open(t testing.TB, word any) {
	t.Helper()
	if _, err := fmt.Fprintln(g.file, word); err != nil {
		t.Fatal(err)
	}
}

// pass waits until a child has written to the gate.
func (g *gate) pass(t testing.TB) string {
	t.Helper()
	_ = g.file.SetReadDeadline(time.Now().Add(patience))
	word := make([]byte, 256)
	n, err := g.file.Read(word)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(word[:n]))
}

// after waits for a time in which something must not happen.
func after(d time.Duration) { <-time.After(d) }

// eventually waits for a condition of the kernel that no event reports.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !condition(); after(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func descriptors() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// letters makes n bytes that no terminal changes in output.
func letters(n int) []byte {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	text := make([]byte, n)
	for i := range text {
		text[i] = alphabet[(i*7+i/61)%len(alphabet)]
	}
	return text
}

func letterFile(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("letters-%d", n))
	if err := os.WriteFile(path, letters(n), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
