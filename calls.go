package execbus

import (
	"context"

	"github.com/execbus/execbus/messages"
)

// SessionCalls are the calls of a session that make sense wherever the session is: in this program, where *Session has them, and on
// another machine. Host code that needs no more than these runs on one machine and on many.
//
// What cannot be the same across machines is not among them: handles with readers and writers ([Session.Start], [Session.RunStreams],
// [Session.Executor]) and subscriptions to the bus ([Session.Events]).
//
// All methods are safe for concurrent use. When its context ends, a waiting call is cancelled, as the one of *Session is.
type SessionCalls interface {
	ID() messages.SessionID

	Exec(ctx context.Context, command messages.ExecCommand) (*messages.Result, error)
	Run(ctx context.Context, command messages.RunCommand) (*messages.RunResult, error)
	Write(ctx context.Context, input messages.WriteStdin) (*messages.Result, error)
	Poll(ctx context.Context, poll messages.Poll) (*messages.Result, error)
	Wait(ctx context.Context, wait messages.Wait) (messages.Wakeups, error)
	Read(ctx context.Context, read messages.ReadOutput) (*messages.OutputPage, error)
	ApplyPatch(ctx context.Context, apply messages.ApplyPatch) (*messages.PatchResult, error)

	CloseStdin(ctx context.Context, closing messages.CloseStdin) error
	Resize(ctx context.Context, resize messages.Resize) error
	Signal(ctx context.Context, signal messages.Signal) error
	Terminate(ctx context.Context, terminate messages.Terminate) (*messages.EndRecord, error)
	TerminateAll(ctx context.Context) error
	EndOwner(ctx context.Context, owner string) error

	List(ctx context.Context) (messages.Processes, error)
	Records(ctx context.Context) (messages.Processes, error)
	UpdateEnvironment(ctx context.Context, update messages.UpdateEnvironment) error
	PauseYields(ctx context.Context) error
	ResumeYields(ctx context.Context) error

	Questions(ctx context.Context) (messages.Questions, error)
	Decide(ctx context.Context, decide messages.Decide) error
	Grants(ctx context.Context) (messages.Grants, error)
	Revoke(ctx context.Context, revoke messages.RevokeGrant) error

	Close(ctx context.Context) error
}

var _ SessionCalls = (*Session)(nil)
