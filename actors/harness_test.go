package actors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/probe"
)

// discarding logs nothing.
var discarding = slog.New(slog.DiscardHandler)

var soak = flag.Bool("soak", false, "run the stress tests in full instead of a twentieth")

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// seam is a spawner between the actors and the real one, where tests watch and disturb.
type seam struct {
	ptyio.Spawner
	before func(ctx context.Context, launch ptyio.Launch) error // may wait, fail or panic
	child  func(ptyio.Child) ptyio.Child                        // what the actors get instead
	raw    func(ptyio.Launch, ptyio.Event)                      // sees what the actors are about to be told
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
	system  *kernel.System
	runtime *kernel.PID
	bus     *bus.Bus
	seam    *seam
	dir     string
}

// hostOptions of a test; the zero value is a warden and no limit to speak of.
type hostOptions struct {
	direct bool
	lost   func(sandbox.WardenLost)
	seam   seam // its Spawner is the real one unless set
	max    int
	plan   func(policy.Request, policy.Snapshot) policy.Plan // nil: the real one
	file   string                                            // for amendments
	// patience with foreign code; zero fields are the defaults
	patience Patience
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
	seen := &witness{living: map[string]*kernel.PID{}}
	system := kernel.NewSystem(slog.New(slog.DiscardHandler), kernel.Options{Before: seen.before})
	h := &host{t: t, system: system, witness: seen, bus: bus.New(bus.Options{}), seam: &o.seam, dir: t.TempDir()}
	var err error
	h.runtime, err = StartRuntime(system, Surroundings{Bus: h.bus, Spawner: h.seam, Logger: slog.New(slog.DiscardHandler),
		MaxProcesses: o.max, Plan: o.plan, AmendmentFile: o.file, Patience: o.patience})
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
	if _, err := kernel.Ask[Done](ctx, h.system, h.runtime, CloseRuntime{}); err != nil && !errors.Is(err, messages.ErrClosed) {
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

// shared are the spawners that tests without a wish of their own use, one after the other: a warden with the race
// detector takes long to start.
var shared = map[bool]ptyio.Spawner{}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, spawner := range shared {
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
	if shared[o.direct] != nil && o.lost == nil {
		return shared[o.direct]
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
	shared[o.direct] = unclosed{spawner}
	return shared[o.direct]
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

// awaitThat waits until a condition holds that nobody reports.
func awaitThat(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came about that %s", what)
		}
	}
}

// talk is a session with a probe that gets its events.
type talk struct {
	*host
	supervisor *kernel.PID
	id         messages.SessionID
	events     *probe.Probe
}

// open opens a session; change may be nil.
func (h *host) open(change func(*SessionConfig)) *talk {
	h.t.Helper()
	config := SessionConfig{Session: messages.SessionID(fmt.Sprint("s", time.Now().UnixNano())), Dir: h.dir, Base: os.Environ(),
		LongestPoll: messages.DefaultMaxPoll, OutputTokens: messages.DefaultOutputTokens, MaxProcesses: 64, WarnProcesses: 60,
		Protected: 8, DeterministicIDs: true, Sandbox: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}}
	if change != nil {
		change(&config)
	}
	s := &talk{host: h, id: config.Session, events: probe.New(h.t)}
	follow(h.t, h.bus, s.id, s.events.Receive)
	s.supervisor = must[*kernel.PID](h, h.runtime, OpenSession{config})
	return s
}

// follow hands a session's events to receive; nothing is lost, and nobody waits long.
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
func ask[T any](h *host, to *kernel.PID, message any) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := kernel.Ask[T](ctx, h.system, to, message)
	if errors.Is(err, context.DeadlineExceeded) {
		h.t.Errorf("%T was not answered: %+v", message, message)
	}
	return reply, err
}

// must asks for what must succeed.
func must[T any](h *host, to *kernel.PID, message any) T {
	h.t.Helper()
	reply, err := ask[T](h, to, message)
	if err != nil {
		h.t.Fatalf("%T: %v", message, err)
	}
	return reply
}

// waiting is a call under way.
type waiting struct {
	*talk
	*kernel.Call
}

// call sends a request and returns at once. Requests of one goroutine arrive in order.
func (s *talk) call(message any) waiting {
	c := waiting{s, s.system.Call(s.supervisor, message)}
	s.t.Cleanup(c.Close)
	return c
}

// reply is the answer, which must come.
func (w waiting) reply() (any, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := w.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		w.t.Fatal("the call was not answered")
	}
	return reply, err
}

func (w waiting) result() *messages.Result {
	w.t.Helper()
	reply, err := w.reply()
	if err != nil {
		w.t.Fatal(err)
	}
	return reply.(*messages.Result)
}

// answered reports whether the answer is here within d.
func (w waiting) answered(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_, err := w.Wait(ctx)
	return !errors.Is(err, context.DeadlineExceeded)
}

func (w waiting) cancel() { w.system.Send(w.supervisor, CancelWait{Waiter: w.PID().Id}) }

func (s *talk) exec(command messages.ExecCommand) *messages.Result {
	s.t.Helper()
	return must[*messages.Result](s.host, s.supervisor, command)
}

func (s *talk) write(id messages.ProcessID, text string) *messages.Result {
	s.t.Helper()
	return must[*messages.Result](s.host, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte(text)})
}

// typed sends input and does not wait for output.
func (s *talk) typed(id messages.ProcessID, text string) {
	s.t.Helper()
	must[*messages.Result](s.host, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte(text), UntilTaken: true})
}

func (s *talk) list() messages.Processes {
	s.t.Helper()
	return must[messages.Processes](s.host, s.supervisor, ListProcesses{})
}

func (s *talk) terminate(id messages.ProcessID) (*messages.EndRecord, error) {
	return ask[*messages.EndRecord](s.host, s.supervisor, messages.Terminate{Process: id})
}

func (h *host) stats() Stats {
	h.t.Helper()
	return must[Stats](h, h.runtime, GetStats{})
}

// said waits until a process's output contains text.
func (s *talk) said(id messages.ProcessID, text string) {
	s.t.Helper()
	if !strings.Contains(s.events.Output(id), text) {
		probe.Expect(s.events, patience, func(messages.OutputDelta) bool { return strings.Contains(s.events.Output(id), text) })
	}
}

func (s *talk) ended(id messages.ProcessID) messages.ExecEnded {
	s.t.Helper()
	return probe.Expect(s.events, patience, func(e messages.ExecEnded) bool { return e.Process == id })
}

// endsOf is every end of a process that was published.
func (s *talk) endsOf(id messages.ProcessID) []messages.ExecEnded {
	return probe.Of(s.events, func(e messages.ExecEnded) bool { return e.Process == id })
}

// quick is a command whose call answers as soon as the program runs.
func quick(script string) messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"bash", "-c", script}, NoWait: true}
}

// shell is a command whose call waits for its end.
func shell(script string) messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"bash", "-c", script}, Yield: new(messages.MaxYield)}
}

// onTerminal puts a command on a terminal.
func onTerminal(command messages.ExecCommand) messages.ExecCommand {
	command.TTY = true
	return command
}

// interactive is a shell that reads commands from a terminal and says nothing by itself.
func interactive() messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"bash", "--norc", "--noprofile", "-i"}, TTY: true, NoWait: true,
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"PS1": "", "HISTFILE": "/dev/null"}}}
}

// idle lives until it is ended.
const idle = "exec sleep 1000"

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

// newActor runs what starts a process and finds its actor.
func (h *host) newActor(start func()) *kernel.PID {
	h.t.Helper()
	before := h.actors("/process$")
	start()
	var found *kernel.PID
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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("the parent cannot be found: %v", err)
	}
	var state string
	var parent int
	if _, err := fmt.Sscan(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), &state, &parent); err != nil {
		t.Fatal(err)
	}
	return parent
}
