package execbus

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// SandboxKind says how a SpawnRequest wants its process confined.
type SandboxKind string

// The kinds of sandbox that a request can name. An executor supports SandboxNone.
const (
	SandboxNone                   SandboxKind = "none"
	SandboxMacOSSeatbelt          SandboxKind = "macosSeatbelt"
	SandboxLinuxSeccomp           SandboxKind = "linuxSeccomp"
	SandboxWindowsRestrictedToken SandboxKind = "windowsRestrictedToken"
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
	// Sandbox must be empty or SandboxNone, and Inherit must be empty: any other value is refused with an error that matches
	// messages.ErrUnsupported.
	Sandbox SandboxKind
	Inherit []ptyio.Inherited
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
	if err := request.check(); err != nil {
		return nil, err
	}
	return e.session.Start(ctx, messages.ExecCommand{Call: messages.CallID(request.ProcessID), Argv: request.Argv, Argv0: request.Argv0,
		Dir: request.Dir, Environment: &messages.EnvironmentPolicy{Exact: true, Set: request.Env}, TTY: request.TTY, OpenStdin: true})
}

// UpdateEnvironment changes the policies for later processes, and the directory and environment for those that
// bring none. A running process keeps its own.
func (e Executor) UpdateEnvironment(ctx context.Context, update messages.UpdateEnvironment) error {
	return e.session.UpdateEnvironment(ctx, update)
}

func (r SpawnRequest) check() error {
	switch {
	case r.Sandbox != "" && r.Sandbox != SandboxNone:
		return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: r.ProcessID,
			Detail: fmt.Sprintf("sandbox policy %s is not supported by this executor; use none", r.Sandbox)}
	case len(r.Inherit) > 0:
		return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: r.ProcessID,
			Detail: "inherited file descriptors are not supported by this executor; pass data by input, file or socket"}
	case !filepath.IsAbs(r.Dir):
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "spawn", Subject: r.ProcessID,
			Detail: fmt.Sprintf("the directory %q is not absolute; use an absolute path", r.Dir)}
	default:
		return nil
	}
}
