package shared_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notraces "go.opentelemetry.io/otel/trace/noop"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// counts is what was counted, by instrument and labels, and the spans by what they said at their end.
type counts map[string]int64

func (c counts) add(name string, n int64, labels []attribute.KeyValue) {
	for _, label := range labels {
		name += fmt.Sprintf(" %s=%s", label.Key, label.Value.Emit())
	}
	c[name] += n
}

type (
	meters struct {
		nometrics.MeterProvider
		counts
	}
	meter struct {
		nometrics.Meter
		counts
	}
	counter struct {
		nometrics.Int64Counter
		counts
		name string
	}
	upDownCounter struct {
		nometrics.Int64UpDownCounter
		counts
		name string
	}
	tracers struct {
		notraces.TracerProvider
		counts
	}
	tracer struct {
		notraces.Tracer
		counts
	}
	span struct {
		notraces.Span
		counts
		name   string
		labels []attribute.KeyValue
	}
)

func (m meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{counts: m.counts} }

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{counts: m.counts, name: name}, nil
}

func (m meter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return upDownCounter{counts: m.counts, name: name}, nil
}

func (c counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	labels := metric.NewAddConfig(options).Attributes()
	c.add(c.name, n, labels.ToSlice())
}

func (c upDownCounter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	labels := metric.NewAddConfig(options).Attributes()
	c.add(c.name, n, labels.ToSlice())
}

func (t tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{counts: t.counts} }

func (t tracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, &span{counts: t.counts, name: name}
}

func (s *span) IsRecording() bool                          { return true }
func (s *span) SetAttributes(labels ...attribute.KeyValue) { s.labels = append(s.labels, labels...) }
func (s *span) End(...trace.SpanEndOption)                 { s.add("span "+s.name, 1, s.labels) }

// newTelemetry submits what keeps reports true for.
func newTelemetry(t *testing.T, keeps func() bool) (*shared.Telemetry, counts) {
	t.Helper()
	c := counts{}
	telemetry, err := shared.NewTelemetry(meters{counts: c}, tracers{counts: c}, func(do func()) {
		if keeps() {
			do()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return telemetry, c
}

func always() bool { return true }

func (c counts) mustBe(t *testing.T, want counts) {
	t.Helper()
	if !maps.Equal(c, want) {
		t.Errorf("the counts are %v, want %v", c, want)
	}
}

// Each decision is counted once, by what it was, whether its labels are usual or not.
func TestADecisionIsCountedByWhatItWas(t *testing.T) {
	telemetry, c := newTelemetry(t, always)
	want := counts{}
	both := []bool{false, true}
	for _, allowed := range both {
		for _, unsandboxed := range both {
			for _, retry := range both {
				for _, source := range []messages.DecisionSource{messages.DecidedByPolicy, messages.DecidedByRule, messages.DecidedByPerson} {
					for _, decision := range []messages.DecisionKind{"", messages.DecisionDenied} {
						d := messages.ToolDecision{Allowed: allowed, Source: source, Decision: decision, Unsandboxed: unsandboxed, Attempt: 1}
						if retry {
							d.Attempt = 2
						}
						telemetry.Decided(d)
						want[fmt.Sprintf("execbus.decisions allowed=%t decision=%s retry=%t source=%s unsandboxed=%t", allowed, decision, retry, source, unsandboxed)] = 1
					}
				}
			}
		}
	}
	c.mustBe(t, want)
}

func TestACommandIsCountedAtItsBeginningAndItsEnd(t *testing.T) {
	telemetry, c := newTelemetry(t, always)
	want := counts{"execbus.processes.started": 4, "execbus.processes.live": 1, "execbus.output": 12}
	for _, cause := range []messages.Cause{messages.CauseExited, messages.CauseTerminated, messages.CauseSpawnFailed} {
		telemetry.Ended(telemetry.Began(), &messages.EndRecord{Cause: cause, Status: messages.ExitStatus{Kind: messages.ExitCode}})
		want["execbus.processes.ended cause="+string(cause)] = 1
		want["span execbus.process cause="+string(cause)+" status=code"] = 1
	}
	telemetry.Began()
	telemetry.Output(5)
	telemetry.Output(7)
	c.mustBe(t, want)
}

// What finds no room is not counted. Neither is the end of a command whose beginning found none: there would be less than no live commands.
func TestWhatFindsNoRoomIsNotCounted(t *testing.T) {
	room := false
	telemetry, c := newTelemetry(t, func() bool { return room })
	span := telemetry.Began()
	telemetry.Output(5)
	telemetry.Decided(messages.ToolDecision{})
	telemetry.Connected(messages.Connection{Sent: 1})
	telemetry.Ended(&shared.Span{}, &messages.EndRecord{})
	room = true
	telemetry.Ended(span, &messages.EndRecord{Cause: messages.CauseExited})
	c.mustBe(t, counts{})
}

func TestAConnectionIsCountedAndItsHostIsNotNamed(t *testing.T) {
	telemetry, c := newTelemetry(t, always)
	telemetry.Connected(messages.Connection{Host: "other.example", Protocol: messages.HostHTTP, Reason: "no rule names it"})
	c.mustBe(t, counts{"execbus.network.connections allowed=false protocol=http": 1}) // no bytes are none of either direction
	telemetry.Connected(messages.Connection{Host: "secret.example", Protocol: messages.HostHTTPS, Allowed: true, Sent: 3, Received: 40})
	telemetry.Connected(messages.Connection{Host: "secret.example", Protocol: messages.HostHTTPS, Allowed: true, Received: 2})
	c.mustBe(t, counts{"execbus.network.connections allowed=true protocol=https": 2, "execbus.network.connections allowed=false protocol=http": 1,
		"execbus.network.bytes direction=sent": 3, "execbus.network.bytes direction=received": 42})
}
