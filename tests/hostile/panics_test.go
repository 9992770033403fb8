//go:build linux

package hostile_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
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

// saboteur is what a host hands to the runtime: a spawner, a logger, instruments. Once, when armed, it panics at one
// point if that is called by one actor. So the panic happens inside of the actor.
type saboteur struct {
	point, actor string
	armed, hit   atomic.Bool
	spawned      atomic.Int32 // spawns that have returned
}

func (s *saboteur) trip(point string) {
	if point == s.point && calledBy(s.actor) && s.armed.CompareAndSwap(true, false) {
		s.hit.Store(true)
		panic("sabotage at " + point)
	}
}

// calledBy reports whether a method of an actor's type is among the callers.
func calledBy(actor string) bool {
	if actor == "" {
		return true
	}
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "actors.(*"+actor+").") {
			return true
		}
		if !more {
			return false
		}
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
			if s.point == "Release" && s.armed.CompareAndSwap(true, false) { // releasing the copy panics: it has no release
				s.hit.Store(true)
				event = ptyio.Output{Stream: e.Stream, Bytes: slices.Clone(e.Bytes)}
				e.Release()
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

type sabotagedChild struct {
	ptyio.Child
	*saboteur
}

func (c sabotagedChild) PID() int { c.trip("PID"); return c.Child.PID() }
func (c sabotagedChild) Write(p []byte, deadline time.Time, done func(int, error)) func() int {
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

// sabotage is one place at which an actor panics, and what leads it there. It returns what the caller was told.
type sabotage struct {
	point, actor string
	act          func(*host, *program) messages.Code
	after        bool // the panic comes after the answer
}

func askExec(h *host, _ *program) messages.Code {
	_, err := h.Exec(h.ctx, h.bash(false, `sleep $1`))
	return codeOf(err)
}

func askEcho(_ *host, p *program) messages.Code {
	_, err := p.Write(p.ctx, messages.WriteStdin{Process: p.id, Bytes: []byte("x\n"), Yield: new(30 * time.Second)})
	return codeOf(err)
}

func askTerminate(h *host, p *program) messages.Code {
	record, err := h.Terminate(h.ctx, messages.Terminate{Process: p.id})
	if err == nil && record.Cause == messages.CauseRuntimeFailure {
		return messages.CodeRuntimeFailure
	}
	return codeOf(err)
}

var sabotages = []sabotage{
	{"Spawn", "", askExec, false},
	{"Spawn's return", "", askExec, false},
	{"PID", "process", askExec, false},
	{"Write", "process", askEcho, false},
	{"Release", "process", askEcho, false},
	{"count execbus.output", "process", askEcho, false},
	{"CloseStdin", "process", func(h *host, p *program) messages.Code { return codeOf(h.CloseStdin(h.ctx, p.id)) }, false},
	{"Resize", "process", func(h *host, p *program) messages.Code { return codeOf(h.Resize(h.ctx, p.id, messages.Size{Rows: 9})) }, false},
	{"Signal", "process", func(h *host, p *program) messages.Code {
		return codeOf(h.Signal(h.ctx, messages.Signal{Process: p.id, Number: int(syscall.SIGWINCH)}))
	}, false},
	{"EndTree", "process", askTerminate, false},
	{"count execbus.processes.started", "supervisor", askExec, false},
	{"count execbus.processes.ended", "supervisor", askTerminate, true},
	{"log process started", "supervisor", askExec, false},
	{"log process ended", "supervisor", askTerminate, true},
	{"WithAttrs", "runtime", func(h *host, _ *program) messages.Code {
		_, err := h.runtime.OpenSession(execbus.SessionOptions{})
		return codeOf(err)
	}, false},
}

// TestPanics lets each actor panic while calls wait on a victim, on another process of its session, and on one of another
// session.
func TestPanics(t *testing.T) {
	for i, c := range sabotages {
		for _, tty := range []bool{false, true} {
			if thinned(i) {
				continue
			}
			name := c.actor + " at " + c.point
			if c.actor == "" {
				name = "work of process at " + c.point
			}
			t.Run(name+map[bool]string{false: "/pipes", true: "/pty"}[tty], func(t *testing.T) {
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
	s := &saboteur{point: c.point, actor: c.actor}
	h := open(t, execbus.Options{Spawner: sabotagedSpawner{real, s}, Logger: slog.New(sabotagedHandler{s}),
		MeterProvider: sabotagedMeters{saboteur: s}})
	h.lossy = true // or a sabotaged batch would be released by the follower
	foreign := *h
	foreign.Session, foreign.token = h.session(execbus.SessionOptions{Dir: h.dir}), newToken()
	const script = `sleep $1 & while read x; do echo "got $x"; done`
	victim, brother, stranger := h.run(h.bash(tty, script), false), h.run(h.bash(tty, script), false), foreign.run(foreign.bash(tty, script), false)
	calls := []chan messages.Code{victim.wait(), brother.wait(), stranger.wait()}

	for _, of := range []*host{h, &foreign} { // what the supervisors do about the starts is behind them
		if _, err := of.List(h.ctx); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the spawns return", func() bool { return s.spawned.Load() == 3 })
	s.armed.Store(true)
	code := c.act(h, victim)
	eventually(t, "the point is reached", s.hit.Load)
	if code != messages.CodeRuntimeFailure && code != messages.CodeClosed && (code != "" || !c.after) {
		t.Errorf("the caller was told %q", code)
	}
	note(parent{t}, "caller: %q", code)
	hitVictim := c.actor != "" && c.point != "PID" && c.actor == "process" // otherwise it is a new command that fails
	dead := map[string]int{"": 0, "process": 0, "supervisor": 2, "runtime": 3}[c.actor]
	for i, p := range []*program{victim, brother, stranger} {
		if i == 0 && hitVictim || i < dead {
			p.diesOfIt(calls[i])
		} else {
			p.goesOn(calls[i])
		}
	}
	if dead > 0 {
		eventually(t, "the session's trees end", func() bool { return len(living(h.token)) <= 0 })
		if _, err := h.Exec(h.ctx, messages.ExecCommand{Argv: []string{"true"}}); codeOf(err) != messages.CodeClosed {
			t.Errorf("the crashed session: %v", err)
		}
	}
	if dead == 3 {
		if _, err := h.runtime.OpenSession(execbus.SessionOptions{}); codeOf(err) != messages.CodeClosed {
			t.Errorf("the crashed runtime: %v", err)
		}
	} else {
		h.session(execbus.SessionOptions{})
	}
}

// wait polls a program without end.
func (p *program) wait() chan messages.Code {
	told := make(chan messages.Code, 1)
	go func() {
		_, err := p.Poll(p.ctx, messages.Poll{Process: p.id, NoTimeout: true})
		told <- codeOf(err)
	}()
	return told
}

// diesOfIt checks that everybody learns of a failure.
func (p *program) diesOfIt(call chan messages.Code) {
	p.t.Helper()
	select {
	case code := <-call:
		switch code {
		case messages.CodeRuntimeFailure, messages.CodeClosed, "":
		case messages.CodeProcessEnded: // it asked too late
		default:
			p.t.Errorf("a call that waited was told %q", code)
		}
	case <-time.After(patience):
		p.t.Error("a call that waited was never answered")
	}
	if ended := p.end(); ended.Cause != messages.CauseRuntimeFailure && ended.Cause != messages.CauseTerminated {
		p.t.Errorf("it ended so: %s", ended.String())
	}
}

// goesOn checks that a program is as usable as ever.
func (p *program) goesOn(call chan messages.Code) {
	p.t.Helper()
	p.write("still here\n")
	p.awaitOutput("got still here")
	p.seen.mu.Lock()
	_, ended := find[messages.ExecEnded](p.seen)
	p.seen.mu.Unlock()
	if ended {
		p.t.Error("what should go on has ended")
	}
	eventually(p.t, "a write ends the poll before it", func() bool { // which may have come only now
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
