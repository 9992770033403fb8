//go:build linux

package hostile_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// saboteur is a host's spawner, logger and instruments. When it is armed it panics once, at one point.
type saboteur struct {
	point      string
	armed, hit atomic.Bool
	spawned    atomic.Int32 // spawns that have returned
}

func (s *saboteur) trip(point string) {
	if point == s.point && s.armed.CompareAndSwap(true, false) {
		s.hit.Store(true)
		panic("sabotage at " + point)
	}
}

type sabotagedSpawner struct {
	ptyio.Spawner
	*saboteur
}

func (s sabotagedSpawner) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	s.trip("Spawn")
	events := launch.Events
	launch.Events = func(event ptyio.Event) {
		switch e := event.(type) {
		case ptyio.Spawned:
			event = ptyio.Spawned{Child: sabotagedChild{e.Child, s.saboteur}}
		case ptyio.Output:
			if s.point == "Release" {
				event = ptyio.NewOutput(e.Stream, e.Bytes, func() {
					e.Release()
					s.trip("Release")
				})
			}
		}
		events(event)
	}
	child, err := s.Spawner.Spawn(ctx, launch)
	if err != nil {
		return nil, err
	}
	s.trip("Spawn's return")
	s.spawned.Add(1)
	return sabotagedChild{child, s.saboteur}, nil
}

func (s sabotagedSpawner) Resolver() ptyio.Resolver {
	s.trip("Resolver")
	return sabotagedResolver{s.Spawner.Resolver(), s.saboteur}
}

type sabotagedResolver struct {
	ptyio.Resolver
	*saboteur
}

func (r sabotagedResolver) Environment(ctx context.Context) ([]string, error) {
	r.trip("Environment")
	return r.Resolver.Environment(ctx)
}

type sabotagedChild struct {
	ptyio.Child
	*saboteur
}

func (c sabotagedChild) PID() int { c.trip("PID"); return c.Child.PID() }
func (c sabotagedChild) Write(p []byte, deadline time.Time, done func(ptyio.Taken, error)) func() int {
	c.trip("Write")
	return c.Child.Write(p, deadline, done)
}
func (c sabotagedChild) CloseStdin(done func(error)) { c.trip("CloseStdin"); c.Child.CloseStdin(done) }
func (c sabotagedChild) Resize(size messages.Size) error {
	c.trip("Resize")
	return c.Child.Resize(size)
}
func (c sabotagedChild) Signal(sig syscall.Signal, scope ptyio.Scope) error {
	c.trip("Signal")
	return c.Child.Signal(sig, scope)
}
func (c sabotagedChild) EndTree(grace time.Duration) { c.trip("EndTree"); c.Child.EndTree(grace) }

type sabotagedHandler struct{ *saboteur }

func (h sabotagedHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h sabotagedHandler) Handle(_ context.Context, r slog.Record) error {
	h.trip("log " + r.Message)
	return nil
}
func (h sabotagedHandler) WithAttrs([]slog.Attr) slog.Handler { h.trip("WithAttrs"); return h }
func (h sabotagedHandler) WithGroup(string) slog.Handler      { return h }

type (
	sabotagedMeters struct {
		noop.MeterProvider
		*saboteur
	}
	sabotagedMeter struct {
		noop.Meter
		*saboteur
	}
	sabotagedCounter struct {
		noop.Int64Counter
		name string
		*saboteur
	}
)

func (m sabotagedMeters) Meter(string, ...metric.MeterOption) metric.Meter {
	return sabotagedMeter{saboteur: m.saboteur}
}

func (m sabotagedMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return sabotagedCounter{name: name, saboteur: m.saboteur}, nil
}

func (c sabotagedCounter) Add(context.Context, int64, ...metric.AddOption) { c.trip("count " + c.name) }

// sabotage is one point at which the host's own code panics. act leads it there, and returns the error that the caller got.
type sabotage struct {
	point string
	act   func(*host, *program) messages.ErrorCode
	told  messages.ErrorCode

	ends bool // the victim ends because it was asked to
}

func askStart(h *host, _ *program) messages.ErrorCode {
	_, err := h.Start(h.ctx, h.bash(false, `sleep $1`))
	return codeOf(err)
}

func askEcho(_ *host, p *program) messages.ErrorCode {
	_, err := p.Write(p.ctx, messages.WriteStdin{Process: p.id, Bytes: []byte("x\n")})
	return codeOf(err)
}

func askTerminate(h *host, p *program) messages.ErrorCode {
	_, err := h.Terminate(h.ctx, messages.Terminate{Process: p.id})
	return codeOf(err)
}

func askSession(h *host, _ *program) messages.ErrorCode {
	_, err := h.runtime.OpenSession(execbus.SessionOptions{})
	return codeOf(err)
}

var sabotages = []sabotage{
	{point: "Resolver", act: askSession, told: messages.ErrRuntimeFailure},
	{point: "Environment", act: askSession, told: messages.ErrRuntimeFailure},
	{point: "Spawn", act: askStart, told: messages.ErrRuntimeFailure},
	{point: "Spawn's return", act: askStart}, // the child exists already
	{point: "PID", act: askStart},
	{point: "Write", act: askEcho, told: messages.ErrRuntimeFailure},
	{point: "Release", act: askEcho},
	{point: "CloseStdin", told: messages.ErrRuntimeFailure,
		act: func(h *host, p *program) messages.ErrorCode {
			return codeOf(h.CloseStdin(h.ctx, messages.CloseStdin{Process: p.id}))
		}},
	{point: "Resize", told: messages.ErrRuntimeFailure,
		act: func(h *host, p *program) messages.ErrorCode {
			return codeOf(h.Resize(h.ctx, messages.Resize{Process: p.id, Size: messages.Size{Rows: 9}}))
		}},
	{point: "Signal", told: messages.ErrRuntimeFailure, act: func(h *host, p *program) messages.ErrorCode {
		return codeOf(h.Signal(h.ctx, messages.Signal{Process: p.id, Signal: syscall.SIGWINCH}))
	}},
	{point: "EndTree", act: askTerminate, ends: true}, // the child is abandoned instead
	{point: "count execbus.output", act: askEcho},
	{point: "count execbus.processes.started", act: askStart},
	{point: "count execbus.processes.ended", act: askTerminate, ends: true},
	{point: "log process started", act: askStart},
	{point: "log process ended", act: askTerminate, ends: true},
	{point: "WithAttrs", act: askSessionAndExec},
}

// askSessionAndExec makes a session log something.
func askSessionAndExec(h *host, _ *program) messages.ErrorCode {
	session, err := h.runtime.OpenSession(execbus.SessionOptions{})
	if err == nil {
		_, err = session.Exec(h.ctx, messages.ExecCommand{Argv: []string{"true"}})
	}
	return codeOf(err)
}

// The host's own code panics while calls wait for a victim, for another process of its session, and for one of another
// session.
func TestPanics(t *testing.T) {
	for i, c := range sabotages {
		for _, tty := range []bool{false, true} {
			if thinned(i) {
				continue
			}
			t.Run(c.point+map[bool]string{false: "/pipes", true: "/pty"}[tty], func(t *testing.T) {
				ledger.enter(t)
				for range sample(20) {
					t.Run("", func(t *testing.T) { c.commit(t, tty) })
				}
			})
		}
	}
}

func (c sabotage) commit(t *testing.T, tty bool) {
	real, err := sandbox.New(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &saboteur{point: c.point}
	h := open(t, execbus.Options{Spawner: sabotagedSpawner{real, s}, Logger: slog.New(sabotagedHandler{s}),
		MeterProvider: sabotagedMeters{saboteur: s}})
	h.lossy = c.point == "Release" // the process's actor releases a batch that no subscriber follows
	foreign := h.neighbour()
	const script = `sleep $1 & while read x; do echo "got $x"; done`
	victim, brother, stranger := h.run(h.bash(tty, script), false), h.run(h.bash(tty, script), false), foreign.run(foreign.bash(tty, script), false)
	calls := []chan messages.ErrorCode{victim.wait(), brother.wait(), stranger.wait()}

	for _, of := range []*host{h, foreign} { // wait until the supervisors have finished the starts
		if _, err := of.List(h.ctx); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the spawns return", func() bool { return s.spawned.Load() == 3 })
	s.armed.Store(true)
	code := c.act(h, victim)
	eventually(t, "the point is reached", s.hit.Load)
	if code != c.told {
		t.Errorf("the caller was told %q, want %q", code, c.told)
	}
	note(parent{t}, "caller: %q", code)
	for i, p := range []*program{victim, brother, stranger} {
		switch {
		case i == 0 && c.ends:
			p.hasEnded(calls[i], messages.CauseTerminated)
		default:
			p.goesOn(calls[i])
		}
	}
	h.session(execbus.SessionOptions{})
	next, err := h.Exec(h.ctx, messages.ExecCommand{Argv: []string{"true"}})
	if err != nil || next.Status != messages.StatusExited(0) {
		t.Errorf("the next command: %+v, %v", next, err)
	}
}

// wait polls a program without a time limit.
func (p *program) wait() chan messages.ErrorCode {
	told := make(chan messages.ErrorCode, 1)
	go func() {
		_, err := p.Poll(p.ctx, messages.Poll{Process: p.id, NoTimeout: true})
		told <- codeOf(err)
	}()
	return told
}

// hasEnded checks that a program has ended with the right cause, and that the waiting poll was answered.
func (p *program) hasEnded(call chan messages.ErrorCode, cause messages.Cause) {
	p.t.Helper()
	select {
	case code := <-call:
		if code != "" && cause == messages.CauseTerminated {
			p.t.Errorf("a poll that waited was told %q", code)
		}
	case <-time.After(patience):
		p.t.Error("a poll that waited was never answered")
	}
	if ended := p.end(); ended.Cause != cause {
		p.t.Errorf("it ended so: %s", ended.String())
	}
}

// goesOn checks that a program still works.
func (p *program) goesOn(call chan messages.ErrorCode) {
	p.t.Helper()
	p.write("still here\n")
	p.awaitOutput("got still here")
	p.seen.mu.Lock()
	_, ended := find[messages.ExecEnded](p.seen)
	p.seen.mu.Unlock()
	if ended {
		p.t.Error("what should go on has ended")
	}
	eventually(p.t, "a write ends the poll before it", func() bool { // that poll may have come only now
		select {
		case code := <-call:
			if code != "" {
				p.t.Errorf("a poll of what goes on: %q", code)
			}
			return true
		default:
			p.write("and here\n")
			return false
		}
	})
	p.terminate()
	p.end()
}
