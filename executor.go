package execbus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// SandboxKind is how a SpawnRequest wants its process confined.
type SandboxKind string

// The kinds of sandbox a request can name. An executor supports SandboxNone.
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
	// Argv is the program and its arguments; Argv0, if not empty, is what it sees as its own name.
	Argv  []string
	Argv0 string
	// Dir is the working directory; it must be absolute.
	Dir string
	// Env is the exact environment.
	Env map[string]string
	// TTY runs it on a terminal of 24 rows and 80 columns.
	TTY bool
	// Sandbox must be empty or SandboxNone, and Inherit empty: anything else is refused with an error that matches
	// messages.ErrUnsupported.
	Sandbox SandboxKind
	Inherit []ptyio.Inherited
}

// Executor starts processes for callers that know nothing of sessions, calls and yields: it is the narrow surface that a
// local and a remote machine share. Where the processes run is decided by the runtime's Spawner.
type Executor struct{ session *Session }

// Executor is the session's executor. Its processes are the session's: they count against its limits and end with it.
func (s *Session) Executor() Executor { return Executor{s} }

// Spawn starts a process and returns when its program runs. If ctx ends before, nothing is left behind.
func (e Executor) Spawn(ctx context.Context, request SpawnRequest) (*ExecSession, error) {
	if err := request.check(); err != nil {
		return nil, err
	}
	call := messages.CallID("executor-" + uuid.NewString())
	watch := Watch{Calls: []messages.CallID{call}, Kinds: []messages.EventKind{messages.KindExecExited, messages.KindExecEnded}}
	events, err := e.session.Events(watch)
	if err != nil {
		return nil, err
	}
	started, err := e.session.Exec(ctx, messages.ExecCommand{Call: call, Argv: request.Argv, Argv0: request.Argv0,
		Dir: request.Dir, Environment: &messages.EnvironmentPolicy{Exact: true, Set: request.Env}, TTY: request.TTY,
		OpenStdin: true, NoWait: true})
	if err != nil {
		events.Close()
		e.takeBack(err)
		return nil, err
	}
	s := &ExecSession{session: e.session, name: request.ProcessID, id: started.Process, call: call, exited: make(chan struct{})}
	go s.follow(events)
	return s, nil
}

// takeBack ends a process whose caller has given up before it knew it. The end is not waited for.
func (e Executor) takeBack(err error) {
	typed, ok := errors.AsType[*messages.Error](err)
	if !ok || typed.Code != messages.ErrCancelled {
		return
	}
	if id, err := strconv.Atoi(typed.Subject); err == nil { // otherwise nothing was begun
		terminate := messages.Terminate{Process: messages.ProcessID(id), By: messages.TerminatedByUser, Grace: new(time.Duration)}
		e.session.runtime.system.Send(e.session.supervisor, terminate)
	}
}

// UpdateEnvironment changes what later processes start from: policies, and the directory and environment of those that
// bring none. A running process keeps what it was started with.
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
			Detail: fmt.Sprintf("the directory %q is not absolute; name it from the root on", r.Dir)}
	default:
		return nil
	}
}

// ExecSession is one process of an Executor. Its methods are safe for concurrent use. Letting go of it does not end the
// process.
type ExecSession struct {
	session *Session
	name    string
	id      messages.ProcessID
	call    messages.CallID
	settle  sync.Once
	exited  chan struct{} // closed when status and err are known
	status  messages.ExitStatus
	err     error
}

// follow learns the exit for those who ask when the session has forgotten the process. It is no wait: a process is not in
// use because somebody may want to know later how it ended.
func (s *ExecSession) follow(events *bus.Subscription) {
	defer events.Close()
	for event, err := range events.All(context.Background()) {
		if err != nil {
			s.settled(messages.StatusNone(), err)
			return
		}
		switch e := event.(type) {
		case messages.ExecExited:
			s.settled(e.Status, nil)
		case messages.ExecEnded:
			s.settled(e.Status, nil)
		}
		return
	}
}

// settled notes how the leader exited, once.
func (s *ExecSession) settled(status messages.ExitStatus, err error) {
	s.settle.Do(func() {
		s.status, s.err = status, err
		if err == nil && status.Kind == messages.ExitNone {
			s.err = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "wait", Subject: s.name, Detail: "the exit status was lost"}
		}
		close(s.exited)
	})
}

// ProcessID is the caller's name for the process.
func (s *ExecSession) ProcessID() string { return s.name }

// SubscribeOutput opens a subscription to the output from now on; there is no replay. A reader that falls behind finds a
// messages.Gap. Output of a terminal counts as messages.StreamPTY.
func (s *ExecSession) SubscribeOutput() (*bus.Subscription, error) {
	return s.session.Events(Watch{Calls: []messages.CallID{s.call},
		Kinds: []messages.EventKind{messages.KindOutputDelta, messages.KindOutputClosed}})
}

// Write sends input and returns when the process has taken it.
func (s *ExecSession) Write(ctx context.Context, p []byte) error {
	result, err := s.session.Write(ctx, messages.WriteStdin{Process: s.id, Bytes: p, NoWait: true})
	if err == nil && result.InputErr != nil {
		return result.InputErr
	}
	return err
}

// Resize changes the size of the process's terminal.
func (s *ExecSession) Resize(ctx context.Context, size messages.Size) error {
	return s.session.Resize(ctx, messages.Resize{Process: s.id, Size: size})
}

// Terminate ends the process with its tree and waits until that has come about. A process that has ended is no error.
func (s *ExecSession) Terminate(ctx context.Context) error {
	_, err := s.session.Terminate(ctx, messages.Terminate{Process: s.id, By: messages.TerminatedByUser})
	if errors.Is(err, messages.ErrUnknownProcess) || errors.Is(err, messages.ErrClosed) {
		return nil // it has ended, and may be forgotten already; or the session has, and ended it
	}
	return err
}

// Wait waits for the leader's exit. It may be called any number of times. The process is in use meanwhile: it is not ended
// to make room for another.
func (s *ExecSession) Wait(ctx context.Context) (messages.ExitStatus, error) {
	if status, known := s.TryExitStatus(); known {
		return status, s.err
	}
	exits, err := s.session.Wait(ctx, messages.AwaitExit{Processes: []messages.ProcessID{s.id}})
	switch {
	case err == nil:
		s.settled(exits[0].Status, nil)
	case errors.Is(err, messages.ErrCancelled):
		return messages.StatusNone(), err
	}
	select { // any other error says that the process is forgotten, so its exit is known or about to be
	case <-s.exited:
		return s.status, s.err
	case <-ctx.Done():
		return messages.StatusNone(), cancelled(ctx)
	}
}

// TryExitStatus is the leader's exit status, and false while the news of its exit is not here. The status is
// messages.StatusNone() where the kernel's word was lost; Wait then says why.
func (s *ExecSession) TryExitStatus() (messages.ExitStatus, bool) {
	select {
	case <-s.exited:
		return s.status, true
	default:
		return messages.StatusNone(), false
	}
}
