package execbus_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// standard are the errors of the standard library that ours may be.
var standard = []error{context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded, osexec.ErrNotFound, fs.ErrNotExist, fs.ErrPermission}

func TestErrorsAreTheStandardLibrarysToo(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	deaf := start(t, session, messages.ExecCommand{Argv: []string{"sleep", "1000"}, OpenStdin: true})
	starts := func(command messages.ExecCommand) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(session.Exec(ctx, command)) }
	}
	waits := func(ctx context.Context) error { return errorOf(deaf.Wait(ctx)) }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	t.Cleanup(cancel)
	events := watch(t, session, execbus.Watch{})
	for name, c := range map[string]struct {
		ctx  context.Context
		do   func(context.Context) error
		code messages.ErrorCode
		are  []error
	}{
		"no such program": {patient(t), starts(messages.ExecCommand{Argv: []string{"no-such-program"}}), messages.ErrNoSuchProgram,
			[]error{osexec.ErrNotFound, fs.ErrNotExist}},
		"no such path": {patient(t), starts(messages.ExecCommand{Argv: []string{"/no/such/program"}}), messages.ErrNoSuchProgram,
			[]error{osexec.ErrNotFound, fs.ErrNotExist}},
		"no such directory": {patient(t), starts(messages.ExecCommand{Argv: []string{"true"}, Dir: "/no/such/dir"}), messages.ErrSpawnFailed,
			[]error{fs.ErrNotExist}},
		"a session's directory": {patient(t), func(ctx context.Context) error {
			return session.UpdateEnvironment(ctx, messages.UpdateEnvironment{Dir: new("/no/such/dir")})
		}, messages.ErrInvalidRequest, []error{fs.ErrNotExist}},
		"not executable": {patient(t), starts(messages.ExecCommand{Argv: []string{filepath.Join(dir, "data")}}), messages.ErrSpawnFailed,
			[]error{fs.ErrPermission}},
		"cancelled before": {canceled, starts(messages.ExecCommand{Argv: []string{"true"}}), messages.ErrCancelled, []error{context.Canceled}},
		"too late":         {late, waits, messages.ErrCancelled, []error{context.DeadlineExceeded}},
		"events":           {canceled, func(ctx context.Context) error { return errorOf(events.Next(ctx)) }, messages.ErrCancelled, []error{context.Canceled}},
		"following":        {late, func(ctx context.Context) error { return errorOf(said(deaf, ctx)) }, messages.ErrCancelled, []error{context.DeadlineExceeded}},
		"not taken in time": {patient(t), func(ctx context.Context) error {
			return errorOf(session.Write(ctx, messages.WriteStdin{Process: deaf.ID(), Bytes: make([]byte, 200_000), UntilTaken: true,
				Patience: new(time.Millisecond)}))
		}, messages.ErrInputNotTaken, []error{os.ErrDeadlineExceeded}},
		"unknown process": {patient(t), func(ctx context.Context) error { return errorOf(session.Process(ctx, 1)) }, messages.ErrUnknownProcess, nil},
	} {
		err := c.do(c.ctx)
		if !errors.Is(err, c.code) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		for _, one := range standard {
			if got, want := errors.Is(err, one), slices.Contains(c.are, one); got != want {
				t.Errorf("%s: %q is %q: %v", name, err, one, got)
			}
		}
	}
}
