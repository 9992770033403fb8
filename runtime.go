package execbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// Options of a runtime. The zero value is useful.
type Options struct {
	// Logger gets everything the runtime has to say; nil means that nothing is logged.
	Logger *slog.Logger
	// Spawner starts the children. Nil means the platform's: a warden on Linux. The runtime closes it.
	Spawner ptyio.Spawner
}

// Runtime is the one thing a host starts and shuts down.
type Runtime struct {
	system *actors.System
	around actors.Surroundings
	actor  *actors.PID
}

// Start starts a runtime. No process is started before the first command.
func Start(options Options) (*Runtime, error) {
	logger := options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	spawner := options.Spawner
	if spawner == nil {
		var err error
		spawner, err = sandbox.New(sandbox.Options{Lost: func(lost sandbox.WardenLost) {
			logger.Error("the warden died", "pid", lost.PID, "status", lost.Status.String(), "children", lost.Children,
				"ended", lost.Tree.Ended, "survivors", lost.Tree.Survivors, "output", lost.Output)
		}})
		if err != nil {
			return nil, err
		}
	}
	r := &Runtime{
		system: actors.NewSystem(logger),
		around: actors.Surroundings{Bus: bus.New(bus.Options{}), Spawner: spawner, Logger: logger},
	}
	var err error
	r.actor, err = r.system.StartRuntime(r.around)
	return r, err
}

// SessionOptions of one conversation. The zero value runs commands in the host's working directory and environment.
type SessionOptions struct {
	// Dir is where commands run that name no other directory; relative ones are relative to the host's.
	Dir string
	// Environment says how the environment of commands is built from the host's.
	Environment messages.EnvironmentPolicy
}

// Session is one conversation of the host.
type Session struct {
	runtime    *Runtime
	id         messages.SessionID
	supervisor *actors.PID
}

// OpenSession opens a session.
func (r *Runtime) OpenSession(options SessionOptions) (*Session, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInvalidRequest, Op: "open session", Subject: "SessionOptions.Dir",
			Detail: fmt.Sprintf("%q cannot be made absolute: %v", options.Dir, err), Hint: "name an absolute path"}
	}
	s := &Session{runtime: r, id: messages.SessionID(uuid.NewString())}
	config := actors.SessionConfig{Session: s.id, Dir: dir, Environment: options.Environment, Base: os.Environ()}
	s.supervisor, err = actors.Ask[*actors.PID](context.Background(), r.system, r.actor, actors.OpenSession{Config: config})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Shutdown ends all sessions, waits until every tree has ended, and frees everything. If ctx ends first, the error names
// what is left, and Shutdown may be called again.
func (r *Runtime) Shutdown(ctx context.Context) error {
	_, err := actors.Ask[messages.Done](ctx, r.system, r.actor, actors.CloseRuntime{})
	if errors.Is(err, messages.ErrClosed) { // by an earlier call
		err = nil
	}
	err = errors.Join(err, r.system.Shutdown(ctx))
	if err != nil {
		return err
	}
	err = r.around.Spawner.Close()
	r.around.Bus.Close()
	return err
}
