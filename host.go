package execbus

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// patience is how long the host's code, and the making of a view, may take; zero fields mean the defaults.
type patience struct {
	answer time.Duration // to answer Start and OpenSession: 5 s
	flush  time.Duration // to take at Shutdown what is queued for its logger and its instruments: 1 s
	view   time.Duration // to show output in a view: viewTime
}

func (p patience) withDefaults() patience {
	return patience{answer: cmp.Or(p.answer, 5*time.Second), flush: cmp.Or(p.flush, time.Second), view: cmp.Or(p.view, viewTime)}
}

// asked calls code of the host, and waits no longer than patience says. A failure becomes an error about subject.
func asked[T any](patience time.Duration, op, subject string, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	value, err := hostcode.Call[T]{Do: do}.Wait(ctx)
	if err == nil {
		return value, nil
	}
	failure := &messages.Error{Code: messages.ErrRuntimeFailure, Op: op, Subject: subject, Detail: err.Error()}
	if typed, ok := errors.AsType[*messages.Error](err); ok && typed.Code != messages.ErrCancelled {
		failure.Code = typed.Code
	}
	return value, failure
}

// ready waits until a spawner of our own can start children.
func ready(spawner ptyio.Spawner) error {
	if starts, ok := spawner.(interface{ Ready(context.Context) error }); ok {
		return starts.Ready(context.Background()) // it bounds the wait itself
	}
	return nil
}

// newTelemetry makes the instruments, which is the host's code, too.
func (o Options) newTelemetry(out *hostcode.Queue) (*actors.Telemetry, error) {
	return asked(o.patience.answer, "start", "telemetry", func(context.Context) (*actors.Telemetry, error) {
		return actors.NewTelemetry(o.MeterProvider, o.TracerProvider, out.Submit)
	})
}

// environment returns the environment from which commands start on the machine of a spawner's children.
func environment(patience time.Duration, spawner ptyio.Spawner) ([]string, error) {
	return asked(patience, "open session", "environment", func(ctx context.Context) ([]string, error) {
		return spawner.Resolver().Environment(ctx)
	})
}

// checkDir fails if there is no directory at an absolute path on the machine of a spawner's children.
func checkDir(patience time.Duration, spawner ptyio.Spawner, op, dir string) error {
	if strings.ContainsRune(dir, 0) {
		return nil // the supervisor refuses it
	}
	there, err := asked(patience, op, dir, func(ctx context.Context) (bool, error) { return spawner.Resolver().IsDir(ctx, dir) })
	if err == nil && !there {
		err = &messages.Error{Code: messages.ErrInvalidRequest, Op: op, Subject: dir,
			Detail: "there is no directory of this name; create one, or name another", Like: messages.LikeNotExist}
	}
	return err
}

// closeSpawner waits for the end of a spawner. It turns a panic into an error.
func closeSpawner(spawner ptyio.Spawner) error {
	_, err := hostcode.Call[struct{}]{Do: func(context.Context) (none struct{}, _ error) { return none, spawner.Close() }}.Wait(context.Background())
	return ours(err, "shutdown", "spawner")
}

// ours returns the error of host code as a *messages.Error, if there is one.
func ours(err error, op, subject string) error {
	if _, typed := errors.AsType[*messages.Error](err); err == nil || typed {
		return err
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: op, Subject: subject, Detail: err.Error()}
}
