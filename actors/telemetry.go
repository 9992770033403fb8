package actors

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/execbus/execbus/messages"
)

// scope names the instruments of this module.
const scope = "github.com/execbus/execbus"

// Telemetry is a runtime's OpenTelemetry instruments. No label carries an id, an argument or a path. Nil measures
// nothing.
type Telemetry struct {
	tracer        trace.Tracer
	started, done metric.Int64Counter
	live          metric.Int64UpDownCounter
	bytes         metric.Int64Counter
	decisions     metric.Int64Counter
}

// NewTelemetry makes the instruments.
func NewTelemetry(meters metric.MeterProvider, tracers trace.TracerProvider) (*Telemetry, error) {
	meter := meters.Meter(scope)
	t := &Telemetry{tracer: tracers.Tracer(scope)}
	var err error
	if t.started, err = meter.Int64Counter("execbus.processes.started", metric.WithDescription("commands accepted")); err != nil {
		return nil, err
	}
	if t.done, err = meter.Int64Counter("execbus.processes.ended", metric.WithDescription("commands ended, by cause")); err != nil {
		return nil, err
	}
	if t.live, err = meter.Int64UpDownCounter("execbus.processes.live", metric.WithDescription("commands that have not ended")); err != nil {
		return nil, err
	}
	if t.decisions, err = meter.Int64Counter("execbus.decisions", metric.WithDescription("decisions about commands")); err != nil {
		return nil, err
	}
	t.bytes, err = meter.Int64Counter("execbus.output", metric.WithUnit("By"), metric.WithDescription("output read"))
	return t, err
}

// span is one process's trace.
type span struct{ trace.Span }

func (t *Telemetry) began() span {
	if t == nil {
		return span{}
	}
	t.started.Add(context.Background(), 1)
	t.live.Add(context.Background(), 1)
	_, s := t.tracer.Start(context.Background(), "execbus.process")
	return span{s}
}

func (t *Telemetry) ended(s span, end *messages.EndRecord) {
	if t == nil {
		return
	}
	cause := attribute.String("cause", string(end.Cause))
	t.done.Add(context.Background(), 1, metric.WithAttributes(cause))
	t.live.Add(context.Background(), -1)
	s.SetAttributes(cause, attribute.String("status", string(end.Status.Kind)))
	s.End()
}

func (t *Telemetry) decided(d messages.ToolDecision) {
	if t == nil {
		return
	}
	t.decisions.Add(context.Background(), 1, metric.WithAttributes(attribute.Bool("allowed", d.Allowed),
		attribute.String("source", string(d.Source)), attribute.String("decision", string(d.Decision)),
		attribute.Bool("unsandboxed", d.Unsandboxed), attribute.Bool("retry", d.Attempt > 1)))
}

func (t *Telemetry) output(n int) {
	if t != nil {
		t.bytes.Add(context.Background(), int64(n))
	}
}
