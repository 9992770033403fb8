package execbus_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notraces "go.opentelemetry.io/otel/trace/noop"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// bad is code of a host that misbehaves at one point.
type bad struct {
	point string
	act   func()
	hits  *atomic.Int32
}

func (b bad) at(point string) {
	if b.point == point {
		b.hits.Add(1)
		b.act()
	}
}

// misdeeds are what bad code does; what blocks does so until release is called.
func misdeeds() (all map[string]func(), release func()) {
	gate := make(chan struct{})
	return map[string]func(){
		"panics":             func() { panic("the host is broken") },
		"blocks":             func() { obstinate(gate) },
		"ends its goroutine": runtime.Goexit,
	}, sync.OnceFunc(func() { close(gate) })
}

// obstinate is seen in the stacks of goroutines.
//
//go:noinline
func obstinate(gate chan struct{}) { <-gate }

// stuck counts the goroutines that code of the host keeps.
func stuck() int {
	stacks := make([]byte, 16<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "execbus_test.obstinate(")
}

type badHandler struct{ bad }

func (h badHandler) Enabled(context.Context, slog.Level) bool        { h.at("Enabled"); return true }
func (h badHandler) Handle(context.Context, slog.Record) error       { h.at("Handle"); return nil }
func (h badHandler) WithAttrs([]slog.Attr) slog.Handler              { h.at("WithAttrs"); return h }
func (h badHandler) WithGroup(string) slog.Handler                   { return h }
func (b bad) logger() *slog.Logger                                   { return slog.New(badHandler{b}) }
func (b bad) meters() metric.MeterProvider                           { return badMeters{bad: b} }
func (b bad) tracers() trace.TracerProvider                          { return badTracers{bad: b} }
func (c badCounter) Add(context.Context, int64, ...metric.AddOption) { c.at("Add") }
func (c badGauge) Add(context.Context, int64, ...metric.AddOption)   { c.at("Add") }

type (
	badMeters struct {
		nometrics.MeterProvider
		bad
	}
	badMeter struct {
		nometrics.Meter
		bad
	}
	badCounter struct {
		nometrics.Int64Counter
		bad
	}
	badGauge struct {
		nometrics.Int64UpDownCounter
		bad
	}
	badTracers struct {
		notraces.TracerProvider
		bad
	}
	badTracer struct {
		notraces.Tracer
		bad
	}
	badSpan struct {
		notraces.Span
		bad
	}
)

func (m badMeters) Meter(string, ...metric.MeterOption) metric.Meter {
	m.at("Meter")
	return badMeter{bad: m.bad}
}

func (m badMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.at("Int64Counter")
	return badCounter{bad: m.bad}, nil
}

func (m badMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return badGauge{bad: m.bad}, nil
}

func (t badTracers) Tracer(string, ...trace.TracerOption) trace.Tracer {
	t.at("Tracer")
	return badTracer{bad: t.bad}
}

func (t badTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.at("Start")
	return ctx, badSpan{bad: t.bad}
}

func (s badSpan) IsRecording() bool                   { s.at("IsRecording"); return true }
func (s badSpan) SetAttributes(...attribute.KeyValue) { s.at("SetAttributes") }
func (s badSpan) End(...trace.SpanEndOption)          { s.at("End") }

// Whatever a host's logger and instruments do: commands are answered, the runtime ends, and all that is left is a goroutine
// for what blocks.
func TestBadLoggersAndInstrumentsHurtNobody(t *testing.T) {
	before := stuck()
	for _, kind := range []struct {
		name    string
		points  []string
		options func(bad) execbus.Options
		dropped func(execbus.Dropped) uint64
	}{
		{"logger", []string{"Enabled", "Handle", "WithAttrs"}, func(b bad) execbus.Options { return execbus.Options{Logger: b.logger()} },
			func(d execbus.Dropped) uint64 { return d.Logs }},
		{"telemetry", []string{"Add", "Start", "IsRecording", "SetAttributes", "End"}, func(b bad) execbus.Options {
			return execbus.Options{MeterProvider: b.meters(), TracerProvider: b.tracers()}
		}, func(d execbus.Dropped) uint64 { return d.Telemetry }},
	} {
		for _, point := range kind.points {
			deeds, release := misdeeds()
			for name, act := range deeds {
				b := bad{point, act, &atomic.Int32{}}
				options := kind.options(b)
				options.Spawner = newSpawner(t, true)
				rt, err := execbus.Start(options.Impatient(patience, 50*time.Millisecond))
				if err != nil {
					t.Fatalf("%s that %s in %s: %v", kind.name, name, point, err)
				}
				t.Logf("%s that %s in %s", kind.name, name, point)
				hurtsNobody(t, rt)
				eventually(t, "it was called", func() bool { return b.hits.Load() > 0 })
				if err := rt.Shutdown(patient(t)); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
				stats, _ := rt.Stats(t.Context())
				if n := kind.dropped(stats.Dropped); name != "blocks" && n == 0 {
					t.Errorf("nothing is counted as dropped")
				}
				if n := b.hits.Load(); n > 1 || stats.Dropped.Logs > 0 && stats.Dropped.Telemetry > 0 {
					t.Errorf("it was called %d times, and dropped was %+v", n, stats.Dropped)
				}
				if n := stuck() - before; n > 1 {
					t.Errorf("%d goroutines are left", n)
				}
			}
			release()
			eventually(t, "what blocked is gone", func() bool { return stuck() <= before })
		}
	}
}

// hurtsNobody uses a runtime: commands have their results, and a session ends.
func hurtsNobody(t *testing.T, rt *execbus.Runtime) {
	t.Helper()
	session := openSession(t, rt, execbus.SessionOptions{})
	for range 3 {
		if result := exec(t, session, bash("echo well; exit 3")); result.OutputText() != "well\n" || result.Status != messages.StatusExited(3) {
			t.Errorf("the result is %q, %v", result.OutputText(), result.Status)
		}
	}
	_, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"/no/such/program"}})
	wantError(t, err, messages.ErrNoSuchProgram)
	if err := session.Close(patient(t)); err != nil {
		t.Error(err)
	}
}

// What blocks holds the records that fit, and the rest is counted while it does.
func TestRecordsForABlockedLoggerAreCounted(t *testing.T) {
	t.Parallel()
	deeds, release := misdeeds()
	b := bad{"Handle", deeds["blocks"], &atomic.Int32{}}
	rt := newRuntime(t, execbus.Options{Logger: b.logger(), Spawner: newSpawner(t, true)}.Impatient(patience, time.Millisecond))
	t.Cleanup(release)
	session := openSession(t, rt, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	eventually(t, "records are dropped", func() bool {
		for range 100 { // each is logged
			_, err := session.Exec(patient(t), unknown())
			wantError(t, err, messages.ErrRejected)
		}
		stats, err := rt.Stats(patient(t))
		return err == nil && stats.Dropped.Logs > 0 && stats.Dropped.Telemetry == 0
	})
}

// waitFor is how long host code that does a misdeed may take: only for one that blocks should the time run out.
func waitFor(misdeed string) time.Duration {
	if misdeed == "blocks" {
		return 50 * time.Millisecond
	}
	return patience
}

func TestProvidersThatMakeNoInstrumentsAreAnErrorOfStart(t *testing.T) {
	t.Parallel()
	deeds, release := misdeeds()
	defer release()
	for _, point := range []string{"Meter", "Int64Counter", "Tracer"} {
		for name, words := range map[string]string{"panics": "it panicked: the host is broken", "blocks": "did not answer in time", "ends its goroutine": "ended its goroutine"} {
			b := bad{point, deeds[name], &atomic.Int32{}}
			options := execbus.Options{MeterProvider: b.meters(), TracerProvider: b.tracers(), Spawner: newSpawner(t, true)}
			_, err := execbus.Start(options.Impatient(waitFor(name), time.Millisecond))
			wantError(t, err, messages.ErrRuntimeFailure, "telemetry", words)
			if err := options.Spawner.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// machine is a spawner whose machine has an environment of its own.
type machine struct {
	ptyio.Spawner
	environment func(context.Context) ([]string, error)
	close       func() error
}

func (m machine) Resolver() ptyio.Resolver { return elsewhere{m.Spawner.Resolver(), m.environment} }

func (m machine) Close() error {
	if m.close != nil {
		if err := m.close(); err != nil {
			return err
		}
	}
	return m.Spawner.Close()
}

// elsewhere is the resolver of a machine.
type elsewhere struct {
	ptyio.Resolver
	environment func(context.Context) ([]string, error)
}

func (e elsewhere) Environment(ctx context.Context) ([]string, error) { return e.environment(ctx) }

// IsDir knows one directory.
func (e elsewhere) IsDir(_ context.Context, path string) (bool, error) {
	return path == "/far/away", nil
}

func TestDirectoriesAreThoseOfTheSpawnersMachine(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{Spawner: machine{Spawner: newSpawner(t, true),
		environment: func(context.Context) ([]string, error) { return nil, nil }}})
	session := openSession(t, rt, execbus.SessionOptions{Dir: "/far/away"})
	_, err := rt.OpenSession(execbus.SessionOptions{Dir: "/"})
	wantError(t, err, messages.ErrInvalidRequest, "open session /: there is no directory of this name")
	if err := session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Dir: new("../away")}); err != nil {
		t.Error(err)
	}
	err = session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Dir: new("/")})
	wantError(t, err, messages.ErrInvalidRequest, "update environment /: there is no directory of this name")
}

func TestTheEnvironmentIsThatOfTheSpawnersMachine(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{Spawner: machine{Spawner: newSpawner(t, true),
		environment: func(context.Context) ([]string, error) { return []string{"PATH=/usr/bin:/bin", "WHERE=far away"}, nil }}})
	session := openSession(t, rt, execbus.SessionOptions{})
	if got := exec(t, session, bash("echo $WHERE$"+tag)).OutputText(); got != "far away\n" {
		t.Errorf("commands find %q", got)
	}
}

func TestAMachineWithoutAnEnvironmentIsAnErrorOfOpenSession(t *testing.T) {
	t.Parallel()
	deeds, release := misdeeds()
	defer release()
	deeds["fails"] = func() {}
	for name, words := range map[string]string{"panics": "it panicked: the host is broken", "blocks": "did not answer in time",
		"ends its goroutine": "ended its goroutine", "fails": "the wire is cut"} {
		spawner := machine{Spawner: newSpawner(t, true), environment: func(context.Context) ([]string, error) {
			deeds[name]()
			return nil, errors.New("the wire is cut")
		}}
		rt := newRuntime(t, execbus.Options{Spawner: spawner}.Impatient(waitFor(name), time.Second))
		_, err := rt.OpenSession(execbus.SessionOptions{})
		wantError(t, err, messages.ErrRuntimeFailure, "open session", "environment", words)
	}
}

func TestASpawnerThatDoesNotEndWellIsAnErrorOfShutdown(t *testing.T) {
	t.Parallel()
	deeds, release := misdeeds()
	defer release()
	for name, words := range map[string]string{"panics": "it panicked: the host is broken", "ends its goroutine": "ended its goroutine"} {
		inner := newSpawner(t, true)
		rt, err := execbus.Start(execbus.Options{Spawner: machine{Spawner: inner, close: func() error { deeds[name](); return nil }}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // it is remembered
			wantError(t, rt.Shutdown(patient(t)), messages.ErrRuntimeFailure, "shutdown", "spawner", words)
		}
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	}
	rt := newRuntime(t, execbus.Options{Spawner: machine{Spawner: newSpawner(t, true), close: func() error { deeds["blocks"](); return nil }}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantError(t, rt.Shutdown(ctx), messages.ErrCancelled, "the spawner is still closing")
	release()
	if err := rt.Shutdown(patient(t)); err != nil {
		t.Error(err)
	}
}
