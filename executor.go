package execbus

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/execbus/execbus/messages"
)

// SpawnRequest asks an Executor for one process.
type SpawnRequest struct {
	// ProcessID is the caller's own name for the process.
	ProcessID string
	// Argv is the program and its arguments. Argv0, if not empty, is the name that the program gets as its own.
	Argv  []string
	Argv0 string
	// Dir is the working directory; it must be absolute.
	Dir string
	// Env is the exact environment.
	Env map[string]string
	// TTY runs it on a terminal of 24 rows and 80 columns.
	TTY bool
}

// Executor starts processes for callers that know nothing of sessions, calls and yields: it is the narrow surface that a
// local and a remote machine share. The runtime's Spawner decides where the processes run.
type Executor struct{ session *Session }

// Executor returns the session's executor. Its processes belong to the session: they count against its limits and end with
// it.
func (s *Session) Executor() Executor { return Executor{s} }

// Spawn starts a process and returns when its program runs. If ctx ends earlier, nothing is left behind. The process's Call is
// the request's ProcessID; [Process.Follow] gives its output from byte 0.
func (e Executor) Spawn(ctx context.Context, request SpawnRequest) (*Process, error) {
	if !filepath.IsAbs(request.Dir) {
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "spawn", Subject: request.ProcessID,
			Detail: fmt.Sprintf("the directory %q is not absolute; use an absolute path", request.Dir)}
	}
	return e.session.Start(ctx, messages.ExecCommand{Call: messages.CallID(request.ProcessID), Argv: request.Argv, Argv0: request.Argv0,
		Dir: request.Dir, Environment: &messages.EnvironmentPolicy{Exact: true, Set: request.Env}, TTY: request.TTY, OpenStdin: true})
}

// UpdateEnvironment changes the policies for later processes, and the directory and environment for those that
// bring none. A running process keeps its own.
func (e Executor) UpdateEnvironment(ctx context.Context, update messages.UpdateEnvironment) error {
	return e.session.UpdateEnvironment(ctx, update)
}
