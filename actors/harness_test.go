package actors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/proc"
)

// discarding logs nothing.
var discarding = slog.New(slog.DiscardHandler)

var soak = flag.Bool("soak", false, "run the stress tests in full instead of a twentieth")

// patience bounds each wait of a test for something that must happen.
const patience = 20 * time.Second

// seam is a spawner between the actors and the real one, where tests watch and disturb.
type seam struct {
	ptyio.Spawner
	before func(ctx context.Context, launch ptyio.Launch) error // may wait, fail or panic
	child  func(ptyio.Child) ptyio.Child                        // the child that the actors get instead
	raw    func(ptyio.Launch, ptyio.Event)                      // sees each event before the actors do
}

func (s *seam) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	if s.before != nil {
		if err := s.before(ctx, launch); err != nil {
			return nil, err
		}
	}
	original := launch
	launch.Events = func(event ptyio.Event) {
		if spawned, ok := event.(ptyio.Spawned); ok && s.child != nil {
			event = ptyio.Spawned{Child: s.child(spawned.Child)}
		}
		if _, output := event.(ptyio.Output); s.raw != nil && !output {
			s.raw(original, event)
		}
		original.Events(event)
	}
	return s.Spawner.Spawn(ctx, launch)
}

// host is a runtime with real children.
type host struct {
	*witness
	t       testing.TB
	system  *system.System
	runtime *system.PID
	bus     *bus.Bus
	seam    *seam
	dir     string
}

// hostOptions of a test; the zero value means a warden, and limits that no test reaches.
type hostOptions struct {
	direct bool
	lost   func(sandbox.WardenLost)
	seam   seam // its Spawner is the real one unless set
	max    int
	plan   func(policy.Request, policy.Snapshot) policy.Plan // nil: the real one
	file   string                                            // for amendments
	rules  *rules.Set
	// patches are the language of patches; nil: there is none
	patches shared.Patches
	network func(shared.NetworkOptions) shared.Network // nil: there is none
	// patience with foreign code; zero fields are the defaults
	patience shared.Patience
	// teardown is how long a tree that is being ended holds back a later start; zero is the default
	teardown time.Duration
}

// unexpected fails the test if an actor gets a message that it does not know. Texts are sent for that by tests, and by nobody else.
func unexpected(t testing.TB) func(*system.PID, any) {
	return func(actor *system.PID, message any) {
		if _, text := message.(string); !text {
			t.Errorf("%s does not know a %T", actor.Id, message)
		}
	}
}

// newHost starts a runtime that must end, with everything it started, before the test does: goroutines, actors and
// descriptors.
func newHost(t testing.TB, o hostOptions) *host {
	t.Helper()
	if o.seam.Spawner == nil {
		o.seam.Spawner = realSpawner(t, o)
	}
	before, running := openFiles(t), goleak.IgnoreCurrent()
	if o.max == 0 {
		o.max = 4096
	}
	seen := &witness{living: map[string]*system.PID{}}
	sys := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{Before: seen.before, Unexpected: unexpected(t)})
	h := &host{t: t, system: sys, witness: seen, bus: bus.New(bus.Options{}), seam: &o.seam, dir: t.TempDir()}
	var err error
	h.runtime, err = StartRuntime(sys, shared.Dependencies{Bus: h.bus, Spawner: h.seam, NewNetwork: o.network, Logger: slog.New(slog.DiscardHandler),
		MaxProcesses: o.max, MakePlan: outside(t, o.plan), AmendmentFile: o.file, Rules: o.rules, Patience: o.patience, Teardown: o.teardown, Patches: o.patches})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.shutdown()
		goleak.VerifyNone(t, running)
		awaitThat(t, "all descriptors are closed", func() bool { return openFiles(t) <= before })
	})
	return h
}

func (h *host) shutdown() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := system.Ask[protocol.Done](ctx, h.system, h.runtime, CloseRuntime{}); err != nil && !errors.Is(err, messages.ErrClosed) {
		h.t.Errorf("close the runtime: %v", err)
	}
	if err := h.system.Shutdown(ctx); err != nil {
		h.t.Error(err)
	}
	if err := h.seam.Close(); err != nil {
		h.t.Error(err)
	}
	h.bus.Close()
}

// spawners are the spawners of tests that do not choose one, used one after the other: a warden with the race detector
// takes long to start.
var spawners = map[bool]ptyio.Spawner{}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Setenv("HOME", "/proc/does/not/exist") // the user's start files for login shells can be slow, say something, and get in one another's way
	code := m.Run()
	for _, spawner := range spawners {
		if err := spawner.(unclosed).Spawner.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// unclosed is a spawner that outlives the runtimes that use it.
type unclosed struct{ ptyio.Spawner }

func (unclosed) Close() error { return nil }

func realSpawner(t testing.TB, o hostOptions) ptyio.Spawner {
	t.Helper()
	if spawners[o.direct] != nil && o.lost == nil {
		return spawners[o.direct]
	}
	spawner, err := sandbox.New(sandbox.Options{Direct: o.direct, Lost: o.lost})
	if err != nil {
		t.Fatal(err)
	}
	if o.lost != nil {
		return spawner
	}
	ended := make(chan struct{}) // the first child starts the warden, whose descriptors then stay
	_, err = spawner.Spawn(context.Background(), ptyio.Launch{Argv: []string{"true"}, Dir: "/", Events: func(e ptyio.Event) {
		if output, ok := e.(ptyio.Output); ok {
			output.Release()
		}
		if _, ok := e.(ptyio.TreeEnded); ok {
			close(ended)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	spawners[o.direct] = unclosed{spawner}
	return spawners[o.direct]
}

func openFiles(t testing.TB) int {
	t.Helper()
	read, write, err := os.Pipe() // the first one makes Go's poller, which stays
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	write.Close()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skipf("descriptors cannot be counted: %v", err)
	}
	return len(entries)
}

// awaitThat polls until a condition holds that no event reports.
func awaitThat(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("this never became true: %s", what)
		}
	}
}

// follow hands a session's events to receive; nothing is lost, and no publisher waits long.
func follow(t testing.TB, b *bus.Bus, session messages.SessionID, receive func(any)) {
	t.Helper()
	events, err := b.Subscribe(bus.Filter{Sessions: []messages.SessionID{session}}, bus.SubscribeOptions{Lossless: true})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event, err := range events.All(context.Background()) {
			if err != nil {
				return
			}
			receive(event)
		}
	}()
	t.Cleanup(func() {
		events.Close()
		<-ended
	})
}

// ask asks and waits, for as long as anything may take.
func ask[T any](h *host, to *system.PID, message any) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := system.Ask[T](ctx, h.system, to, message)
	if errors.Is(err, context.DeadlineExceeded) {
		h.t.Errorf("%T was not answered: %+v", message, message)
	}
	return reply, err
}

// must makes a request that must succeed.
func must[T any](h *host, to *system.PID, message any) T {
	h.t.Helper()
	reply, err := ask[T](h, to, message)
	if err != nil {
		h.t.Fatalf("%T: %v", message, err)
	}
	return reply
}

func (h *host) stats() Stats {
	h.t.Helper()
	return must[Stats](h, h.runtime, GetStats{})
}

func wantCode(t testing.TB, r *messages.Result, code int) {
	t.Helper()
	if r.Running || r.Status != messages.StatusExited(code) {
		t.Errorf("running %t, status %v, want the code %d; output %q", r.Running, r.Status, code, r.Output)
	}
}

func wantError(t testing.TB, what string, err error, target error) *messages.Error {
	t.Helper()
	typed, ok := errors.AsType[*messages.Error](err)
	if !ok || !errors.Is(err, target) {
		t.Errorf("%s: %v, want an error that matches %q", what, err, target)
		return &messages.Error{}
	}
	return typed
}

// newActor calls a function that starts a process, and finds the process's actor.
func (h *host) newActor(start func()) *system.PID {
	h.t.Helper()
	before := h.actors("/process$")
	start()
	var found *system.PID
	awaitThat(h.t, "a process has an actor", func() bool {
		for _, pid := range h.actors("/process$") {
			if !slices.ContainsFunc(before, pid.Equal) {
				found = pid
			}
		}
		return found != nil
	})
	return found
}

// parentOf is the parent of a kernel process.
func parentOf(t testing.TB, pid int) int {
	t.Helper()
	parent := proc.Look(pid).Parent
	if parent == 0 {
		t.Skip("the parent cannot be found")
	}
	return parent
}
