package shared

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
// nothing. The instruments are the host's code, so they are called only in functions that are handed to submit.
type Telemetry struct {
	submit        func(func())
	tracer        trace.Tracer
	started, done metric.Int64Counter
	live          metric.Int64UpDownCounter
	bytes         metric.Int64Counter
	decisions     metric.Int64Counter
	connections   metric.Int64Counter
	carried       metric.Int64Counter

	// Labels that most commands end with. Making and sorting them takes 1 KiB for each command.
	usualEnds      map[messages.Cause][]metric.AddOption
	usualDecisions map[decisionLabels][]metric.AddOption
}

// decisionLabels are the labels by which decisions are counted.
type decisionLabels struct {
	allowed     bool
	source      messages.DecisionSource
	decision    messages.DecisionKind
	unsandboxed bool
	retry       bool
}

func (l decisionLabels) options() []metric.AddOption {
	return []metric.AddOption{metric.WithAttributes(attribute.Bool("allowed", l.allowed),
		attribute.String("source", string(l.source)), attribute.String("decision", string(l.decision)),
		attribute.Bool("unsandboxed", l.unsandboxed), attribute.Bool("retry", l.retry))}
}

func endOptions(cause messages.Cause) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributes(attribute.String("cause", string(cause)))}
}

// NewTelemetry makes the instruments; the host's code may take long for that. The functions that submit gets must be
// called later, in order and one at a time; submit may also drop them.
func NewTelemetry(meters metric.MeterProvider, tracers trace.TracerProvider, submit func(func())) (*Telemetry, error) {
	meter := meters.Meter(scope)
	t := &Telemetry{submit: submit, tracer: tracers.Tracer(scope), usualEnds: map[messages.Cause][]metric.AddOption{},
		usualDecisions: map[decisionLabels][]metric.AddOption{}}
	for _, cause := range []messages.Cause{messages.CauseExited, messages.CauseTerminated} {
		t.usualEnds[cause] = endOptions(cause)
	}
	for _, source := range []messages.DecisionSource{messages.DecidedByPolicy, messages.DecidedByRule} {
		for _, unsandboxed := range []bool{false, true} {
			labels := decisionLabels{allowed: true, source: source, unsandboxed: unsandboxed}
			t.usualDecisions[labels] = labels.options()
		}
	}
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
	if t.connections, err = meter.Int64Counter("execbus.network.connections", metric.WithDescription("connections of commands to named hosts")); err != nil {
		return nil, err
	}
	if t.carried, err = meter.Int64Counter("execbus.network.bytes", metric.WithUnit("By"), metric.WithDescription("bytes that such connections carried")); err != nil {
		return nil, err
	}
	t.bytes, err = meter.Int64Counter("execbus.output", metric.WithUnit("By"), metric.WithDescription("output read"))
	return t, err
}

// Span is one process's trace. Only submitted functions touch it. It is nil where the beginning was dropped, and then the
// end is dropped, too: a process that was not counted as begun must not be counted as ended.
type Span struct{ trace trace.Span }

func (t *Telemetry) Began() *Span {
	s := &Span{}
	if t != nil {
		t.submit(func() {
			t.started.Add(context.Background(), 1)
			t.live.Add(context.Background(), 1)
			_, s.trace = t.tracer.Start(context.Background(), "execbus.process")
		})
	}
	return s
}

func (t *Telemetry) Ended(s *Span, end *messages.EndRecord) {
	if t == nil {
		return
	}
	t.submit(func() {
		if s.trace == nil {
			return
		}
		t.done.Add(context.Background(), 1, t.endOptions(end.Cause)...)
		t.live.Add(context.Background(), -1)
		if s.trace.IsRecording() {
			s.trace.SetAttributes(attribute.String("cause", string(end.Cause)), attribute.String("status", string(end.Status.Kind)))
		}
		s.trace.End()
	})
}

func (t *Telemetry) endOptions(cause messages.Cause) []metric.AddOption {
	if options, usual := t.usualEnds[cause]; usual {
		return options
	}
	return endOptions(cause)
}

func (t *Telemetry) Decided(d messages.ToolDecision) {
	if t == nil {
		return
	}
	labels := decisionLabels{d.Allowed, d.Source, d.Decision, d.Unsandboxed, d.Attempt > 1}
	t.submit(func() {
		options, usual := t.usualDecisions[labels]
		if !usual {
			options = labels.options()
		}
		t.decisions.Add(context.Background(), 1, options...)
	})
}

func (t *Telemetry) Output(n int) {
	if t != nil {
		t.submit(func() { t.bytes.Add(context.Background(), int64(n)) })
	}
}

// Connected counts a connection to a named host that has ended or was refused. No label names the host: a command chooses it.
func (t *Telemetry) Connected(c messages.Connection) {
	if t == nil {
		return
	}
	t.submit(func() {
		ctx := context.Background()
		t.connections.Add(ctx, 1, metric.WithAttributes(attribute.Bool("allowed", c.Allowed), attribute.String("protocol", string(c.Protocol))))
		for direction, bytes := range map[string]int64{"sent": c.Sent, "received": c.Received} {
			if bytes > 0 {
				t.carried.Add(ctx, bytes, metric.WithAttributes(attribute.String("direction", direction)))
			}
		}
	})
}
