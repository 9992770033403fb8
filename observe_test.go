package execbus_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notraces "go.opentelemetry.io/otel/trace/noop"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// records keeps what is logged.
type records struct {
	mu   sync.Mutex
	kept []string // level, message, attributes
}

func (r *records) logger() *slog.Logger { return slog.New(logHandler{r, ""}) }

// want waits for a record of a level with a message that has an attribute.
func (r *records) want(t *testing.T, level, message, key string, value any) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s %q with %s=%v is logged", level, message, key, value), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.kept, func(text string) bool {
			return strings.HasPrefix(text, level+" "+message) && strings.Contains(text+" ", fmt.Sprintf(" %s=%v ", key, value))
		})
	})
}

// count is how many records begin with a text.
func (r *records) count(beginning string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.kept {
		if strings.HasPrefix(text, beginning) {
			n++
		}
	}
	return n
}

// levels counts the records of each level.
func (r *records) levels() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := map[string]int{}
	for _, text := range r.kept {
		level, _, _ := strings.Cut(text, " ")
		count[level]++
	}
	return count
}

type logHandler struct {
	records *records
	with    string
}

func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h logHandler) WithGroup(string) slog.Handler            { return h }

func (h logHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	for _, a := range attributes {
		h.with += " " + a.String()
	}
	return h
}

func (h logHandler) Handle(_ context.Context, record slog.Record) error {
	text := record.Level.String() + " " + record.Message + h.with
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	h.records.mu.Lock()
	defer h.records.mu.Unlock()
	h.records.kept = append(h.records.kept, text)
	return nil
}

func TestEverydayLogsAreForDebugging(t *testing.T) {
	t.Parallel()
	logs := &records{}
	session := openSession(t, newRuntime(t, execbus.Options{Logger: logs.logger()}), execbus.SessionOptions{})
	id := exec(t, session, bash("exit 3")).Process
	living := launch(t, session, bash("sleep 1000"))
	if _, err := session.Terminate(patient(t), messages.Terminate{Process: living}); err != nil {
		t.Fatal(err)
	}
	_, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"/no/such/program"}})
	wantError(t, err, messages.ErrNoSuchProgram)
	logs.want(t, "DEBUG", "process started", "process", id)
	logs.want(t, "DEBUG", "process ended", "process", id)
	logs.want(t, "DEBUG", "process ended", "status", "code(3)")
	logs.want(t, "DEBUG", "process ended", "by", "user")
	logs.want(t, "DEBUG", "process ended", "cause", "spawn_failed")
	logs.want(t, "DEBUG", "process ended", "session", session.ID())
	if n := logs.count("DEBUG process started"); n != 2 {
		t.Errorf("%d starts of two processes were logged", n)
	}
	if levels := logs.levels(); levels["WARN"] > 0 || levels["ERROR"] > 0 {
		t.Errorf("there is more than debugging: %v", levels)
	}
}

// reports is a spawner that changes what its children report.
type reports struct {
	ptyio.Spawner
	change func(ptyio.Event) ptyio.Event
}

func (s reports) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	deliver := launch.Events
	launch.Events = func(event ptyio.Event) { deliver(s.change(event)) }
	return s.Spawner.Spawn(ctx, launch)
}

func TestSurvivorsAreWarnings(t *testing.T) {
	t.Parallel()
	logs := &records{}
	spawner := reports{newSpawner(t, true), func(event ptyio.Event) ptyio.Event {
		if _, ok := event.(ptyio.TreeEnded); ok {
			return ptyio.TreeEnded{TreeReport: messages.TreeReport{Survivors: []messages.Survivor{{PID: 7, Name: "sudo", Why: "not ours"}}}}
		}
		return event
	}}
	session := openSession(t, newRuntime(t, execbus.Options{Logger: logs.logger(), Spawner: spawner}), execbus.SessionOptions{})
	events := watch(t, session, execbus.Watch{})
	id := exec(t, session, bash("true")).Process
	logs.want(t, "WARN", "process ended", "process", id)
	logs.want(t, "WARN", "process ended", "survivors", "[{7 sudo not ours}]")
	if end := await[messages.ExecEnded](t, events, nil); len(end.Tree.Survivors) != 1 || end.Cause != messages.CauseExited {
		t.Errorf("the end is told as %+v", end.EndRecord)
	}
}

// meter records what is counted, with the attributes, and traces the spans.
type meter struct {
	mu     sync.Mutex
	counts map[string]int64 // by instrument and attributes
	labels map[attribute.Key]map[string]bool
	spans  map[string]int // begun minus ended, by name
}

func newMeter() *meter {
	return &meter{counts: map[string]int64{}, labels: map[attribute.Key]map[string]bool{}, spans: map[string]int{}}
}

func (m *meter) meters() metric.MeterProvider  { return meterProvider{meter: m} }
func (m *meter) tracers() trace.TracerProvider { return tracerProvider{meter: m} }

func (m *meter) add(name string, n int64, attributes []attribute.KeyValue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range attributes {
		name += " " + string(a.Key) + "=" + a.Value.Emit()
	}
	m.counts[name] += n
	m.label(attributes)
}

func (m *meter) label(attributes []attribute.KeyValue) {
	for _, a := range attributes {
		if m.labels[a.Key] == nil {
			m.labels[a.Key] = map[string]bool{}
		}
		m.labels[a.Key][a.Value.Emit()] = true
	}
}

func (m *meter) span(name string, change int, attributes []attribute.KeyValue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spans[name] += change
	m.label(attributes)
}

type (
	meterProvider struct {
		nometrics.MeterProvider
		meter *meter
	}
	instruments struct {
		nometrics.Meter
		meter *meter
	}
	counter struct {
		nometrics.Int64Counter
		add func(n int64, attributes []attribute.KeyValue)
	}
	upDownCounter struct {
		nometrics.Int64UpDownCounter
		add func(n int64, attributes []attribute.KeyValue)
	}
	tracerProvider struct {
		notraces.TracerProvider
		meter *meter
	}
	tracer struct {
		notraces.Tracer
		meter *meter
	}
	span struct {
		notraces.Span
		meter *meter
		name  string
	}
)

func (p meterProvider) Meter(string, ...metric.MeterOption) metric.Meter {
	return instruments{meter: p.meter}
}

func (i instruments) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{add: func(n int64, a []attribute.KeyValue) { i.meter.add(name, n, a) }}, nil
}

func (i instruments) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return upDownCounter{add: func(n int64, a []attribute.KeyValue) { i.meter.add(name, n, a) }}, nil
}

func (c counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	attributes := metric.NewAddConfig(options).Attributes()
	c.add(n, attributes.ToSlice())
}

func (c upDownCounter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	attributes := metric.NewAddConfig(options).Attributes()
	c.add(n, attributes.ToSlice())
}

func (p tracerProvider) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return tracer{meter: p.meter}
}

func (t tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(options...)
	t.meter.span(name, 1, config.Attributes())
	return ctx, span{meter: t.meter, name: name}
}

// IsRecording makes it worth telling the span something: the library's own would not want to know.
func (s span) IsRecording() bool { return true }

func (s span) SetAttributes(attributes ...attribute.KeyValue) { s.meter.span(s.name, 0, attributes) }

func (s span) AddEvent(_ string, options ...trace.EventOption) {
	config := trace.NewEventConfig(options...)
	s.meter.span(s.name, 0, config.Attributes())
}

func (s span) End(...trace.SpanEndOption) { s.meter.span(s.name, -1, nil) }

// mixed runs commands of which 4 exit, 3 are terminated and 2 never start, closes their session, and returns how many
// bytes of output there were.
func mixed(t *testing.T, session *execbus.Session) int64 {
	t.Helper()
	for _, script := range []string{"echo secret-output", "echo secret-output >&2; exit 3", "kill -9 $$"} {
		exec(t, session, bash(script))
	}
	if _, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"printf", "secret-argument"}}); err != nil {
		t.Fatal(err)
	}
	_, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"/no/such/secret-path"}})
	wantError(t, err, messages.ErrNoSuchProgram)
	_, err = session.Exec(patient(t), messages.ExecCommand{Script: "true", Shell: "secret-shell"})
	wantError(t, err, messages.ErrInvalidRequest)
	_, err = session.Exec(patient(t), messages.ExecCommand{}) // is no command and counts nowhere
	wantError(t, err, messages.ErrInvalidRequest)
	id := launch(t, session, bash("sleep 1000"))
	if _, err := session.Terminate(patient(t), messages.Terminate{Process: id}); err != nil {
		t.Fatal(err)
	}
	result, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"sleep", "1000"}, Timeout: new(time.Duration(1))})
	if err != nil || !result.TimedOut {
		t.Fatalf("the run that times out is answered with %+v, %v", result, err)
	}
	launch(t, session, bash("sleep 1000"))
	if err := session.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	return int64(len("secret-output\nsecret-output\nsecret-argument"))
}

func TestStatsOfAMixedRun(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	events := watch(t, openSession(t, rt, execbus.SessionOptions{}), execbus.Watch{})
	mixed(t, openSession(t, rt, execbus.SessionOptions{}))
	var stats execbus.Stats
	eventually(t, "the closed session is gone", func() bool {
		var err error
		if stats, err = rt.Stats(patient(t)); err != nil {
			t.Fatal(err)
		}
		return stats.Sessions == 1
	})
	if stats.Processes != 0 || stats.Bus.Subscriptions != 1 || stats.Bus.Published == 0 || stats.Bus.Dropped != 0 {
		t.Errorf("the stats are %+v", stats)
	}
	// The run that times out may do so before it has a slot, and the unknown shell is found out before.
	if stats.Started != 7 && stats.Started != 8 {
		t.Errorf("%d commands were given a slot, want 7 or 8", stats.Started)
	}
	want := map[messages.Cause]uint64{messages.CauseExited: 4, messages.CauseTerminated: 3, messages.CauseSpawnFailed: 2}
	if !maps.Equal(stats.Ended, want) {
		t.Errorf("the ends are %v, want %v", stats.Ended, want)
	}
	stats.Ended[messages.CauseExited] = 99
	if again, err := rt.Stats(patient(t)); err != nil || !maps.Equal(again.Ended, want) {
		t.Errorf("the stats are not a copy: %v, %v", again.Ended, err)
	}
	events.Close()
	if stats, _ = rt.Stats(patient(t)); stats.Bus.Subscriptions != 0 {
		t.Errorf("%d subscriptions are open", stats.Bus.Subscriptions)
	}
}

func TestTelemetryCountsAndTellsNoSecrets(t *testing.T) {
	t.Parallel()
	m := newMeter()
	rt := newRuntime(t, execbus.Options{MeterProvider: m.meters(), TracerProvider: m.tracers()})
	bytes := mixed(t, openSession(t, rt, execbus.SessionOptions{}))
	if err := rt.Shutdown(patient(t)); err != nil { // it has called everything then
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	const decisions = "execbus.decisions allowed=true decision= retry=false source=policy unsandboxed=true"
	// The run that times out may do so before it has a plan, and the unknown shell is found out before.
	if n := m.counts[decisions]; n != 7 && n != 8 {
		t.Errorf("%d decisions were counted, want 7 or 8", n)
	}
	delete(m.counts, decisions)
	want := map[string]int64{
		"execbus.processes.started":                  9,
		"execbus.processes.live":                     0,
		"execbus.processes.ended cause=exited":       4,
		"execbus.processes.ended cause=terminated":   3,
		"execbus.processes.ended cause=spawn_failed": 2,
		"execbus.output":                             bytes,
	}
	if !maps.Equal(m.counts, want) {
		t.Errorf("the counts are %v, want %v", m.counts, want)
	}
	if begun, ok := m.spans["execbus.process"]; !ok || begun != 0 || len(m.spans) != 1 {
		t.Errorf("the spans that did not end are %v", m.spans)
	}
	allowed := map[attribute.Key][]string{
		"cause":  {"exited", "terminated", "spawn_failed"},
		"status": {"none", "code", "signal"},

		"allowed": {"true", "false"}, "retry": {"true", "false"}, "unsandboxed": {"true", "false"},
		"source":   {"rule", "cache", "policy", "user", "deadline", "absence"},
		"decision": {"", "approved", "approved_for_session", "approved_execpolicy_amendment", "denied", "timed_out", "abort"},
	}
	if len(m.labels["status"]) != 3 { // which only spans have
		t.Errorf("the spans told of %v", m.labels["status"])
	}
	for key, values := range m.labels {
		for value := range values {
			if !slices.Contains(allowed[key], value) {
				t.Errorf("there is a label %s=%q", key, value)
			}
		}
	}
}

func TestTelemetryThatFailsIsAnErrorOfStart(t *testing.T) {
	_, err := execbus.Start(execbus.Options{MeterProvider: brokenMeters{}})
	wantError(t, err, messages.ErrRuntimeFailure, "telemetry", "no more instruments")
	if _, err := actors.NewTelemetry(brokenMeters{}, notraces.NewTracerProvider(), nil); err == nil {
		t.Error("broken instruments were taken")
	}
}

type brokenMeters struct{ nometrics.MeterProvider }

func (brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ nometrics.Meter }

func (brokenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, fmt.Errorf("no more instruments")
}
