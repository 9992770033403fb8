package execbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// Defaults of Options.
const (
	// DefaultRuntimeProcesses is how many processes all sessions of a runtime may have together.
	DefaultRuntimeProcesses = 1024
)

// Options of a runtime. The zero value is useful. They are copied by Start.
type Options struct {
	// Logger gets everything the runtime has to say; nil means that nothing is logged.
	Logger *slog.Logger
	// Spawner starts the children. Nil means the platform's own: a warden on Linux. The runtime closes it.
	Spawner ptyio.Spawner
	// MaxProcesses bounds the processes of all sessions together; zero means DefaultRuntimeProcesses.
	MaxProcesses int
	// MeterProvider and TracerProvider are OpenTelemetry's; nil means its global ones. No label carries an id, an
	// argument or a path.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// withDefaults fills in what is left open.
func (o Options) withDefaults() (Options, error) {
	if o.MaxProcesses < 0 {
		return o, badOption("Options.MaxProcesses", o.MaxProcesses)
	}
	if o.MaxProcesses == 0 {
		o.MaxProcesses = DefaultRuntimeProcesses
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	return o, nil
}

func badOption(field string, value any) error {
	return &messages.Error{Code: messages.CodeInvalidRequest, Op: "configure", Subject: field,
		Detail: fmt.Sprintf("%v is out of range", value), Hint: "see the field's documentation"}
}

// Runtime is the one thing a host starts and shuts down.
type Runtime struct {
	system *actors.System
	around actors.Surroundings
	actor  *actors.PID
}

// Start starts a runtime. No process is started before the first command.
func Start(options Options) (*Runtime, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	telemetry, err := actors.NewTelemetry(options.MeterProvider, options.TracerProvider)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeRuntimeFailure, Op: "start", Subject: "telemetry", Detail: err.Error()}
	}
	r := &Runtime{around: actors.Surroundings{Bus: bus.New(bus.Options{}), Spawner: options.Spawner, Logger: options.Logger,
		MaxProcesses: options.MaxProcesses, Telemetry: telemetry}}
	if r.around.Spawner == nil {
		if r.around.Spawner, err = sandbox.New(sandbox.Options{Lost: r.wardenLost}); err != nil {
			return nil, err
		}
	}
	r.system = actors.NewSystem(options.Logger)
	r.actor, err = r.system.StartRuntime(r.around)
	return r, err
}

func (r *Runtime) wardenLost(lost sandbox.WardenLost) {
	r.around.Logger.Error("the warden died", "pid", lost.PID, "status", lost.Status.String(), "children", lost.Children,
		"ended", lost.Tree.Ended, "survivors", lost.Tree.Survivors, "output", lost.Output)
	r.around.Bus.Publish(messages.ExecNotice{Text: fmt.Sprintf("the warden (pid %d) died, and %d commands with it: %s",
		lost.PID, lost.Children, lost.Status)})
}

// Stats counts what a runtime has done.
type Stats struct {
	actors.Stats
	Bus bus.Stats
}

// Stats counts what the runtime has done so far.
func (r *Runtime) Stats(ctx context.Context) (Stats, error) {
	counted, err := actors.Ask[actors.Stats](ctx, r.system, r.actor, actors.GetStats{})
	return Stats{Stats: counted, Bus: r.around.Bus.Stats()}, err
}

// OpenSession opens a session.
func (r *Runtime) OpenSession(options SessionOptions) (*Session, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Session{runtime: r, id: messages.SessionID(uuid.NewString())}
	config := actors.SessionConfig{
		Session: s.id, Dir: options.Dir, Environment: options.Environment, Base: os.Environ(), NoLoginShell: options.NoLoginShell,
		LongestPoll: options.LongestPoll, OutputTokens: options.OutputTokens, MaxProcesses: options.MaxProcesses,
		WarnProcesses: options.WarnProcesses, Protected: options.ProtectedProcesses, DeterministicIDs: options.DeterministicIDs,
	}
	s.supervisor, err = actors.Ask[*actors.PID](context.Background(), r.system, r.actor, actors.OpenSession{Config: config})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Shutdown ends all sessions, waits until every tree has ended, and frees everything. If ctx ends first the error says
// what is left, and Shutdown may be called again.
func (r *Runtime) Shutdown(ctx context.Context) error {
	_, err := actors.Ask[messages.Done](ctx, r.system, r.actor, actors.CloseRuntime{})
	if err != nil && !errors.Is(err, messages.ErrClosed) { // closed: by an earlier call
		return &messages.Error{Code: messages.CodeCancelled, Op: "shutdown", Detail: "not everything has ended yet: " + err.Error(),
			Hint: "call it again with more time"}
	}
	if err := r.system.Shutdown(ctx); err != nil {
		return err
	}
	err = r.around.Spawner.Close()
	r.around.Bus.Close()
	return err
}

// absolute resolves a host's directory.
func absolute(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", &messages.Error{Code: messages.CodeInvalidRequest, Op: "open session", Subject: "SessionOptions.Dir",
			Detail: fmt.Sprintf("%q cannot be made absolute: %v", dir, err), Hint: "name an absolute path"}
	}
	return full, nil
}
