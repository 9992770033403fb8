package execbus_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// What goes wrong by a mistake of the caller says what was wrong.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, session, messages.ExecCommand{Argv: []string{"bash", "-c", "echo 12345; read x"}, OpenStdin: true})
	follow(t, p, 0).await("12345\n")
	command := messages.ExecCommand{Argv: []string{"true"}}
	for name, c := range map[string]struct {
		err   error
		code  messages.ErrorCode
		facts []string
	}{
		"a start that is cancelled": {errorOf(session.Start(ended, command)), messages.ErrCancelled,
			[]string{"before it began", "nothing was done", "context canceled"}},
		"a directory that is a file": {errorOf(session.Start(t.Context(), messages.ExecCommand{Argv: []string{"true"}, Dir: file})),
			messages.ErrSpawnFailed, []string{file, "not a directory; choose another"}},
		"a session in a file": {session.UpdateEnvironment(t.Context(), messages.UpdateEnvironment{Dir: &file}), messages.ErrInvalidRequest,
			[]string{file, "there is no directory of this name"}},
		"an offset in the future": {errorOf(p.Read(t.Context(), messages.ReadOutput{Offset: new(int64(7))})), messages.ErrOutputUnretained,
			[]string{"offset 7", "there is none yet", "6 bytes in 1 chunks", "kept are bytes 0 to 5"}},
		"a chunk in the future": {errorOf(p.Read(t.Context(), messages.ReadOutput{AfterSeq: new(uint64(2))})), messages.ErrOutputUnretained,
			[]string{"chunk 2", "there is none yet"}},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, c.err, c.code, c.facts...) })
	}
}

// A caller that has not looked at an error has a nil session or process, and then gets an error that says so.
func TestNilHandlesAreErrors(t *testing.T) {
	t.Parallel()
	var session *execbus.Session
	var p *execbus.Process
	ctx := t.Context()
	for name, err := range map[string]error{
		"Exec":      errorOf(session.Exec(ctx, messages.ExecCommand{Argv: []string{"true"}})),
		"Start":     errorOf(session.Start(ctx, messages.ExecCommand{Argv: []string{"true"}})),
		"Events":    errorOf(session.Events(execbus.Watch{})),
		"Close":     session.Close(ctx),
		"Wait":      errorOf(p.Wait(ctx)),
		"Terminate": errorOf(p.Terminate(ctx)),
		"Write":     errorOf(p.Write([]byte("x"))),
		"Send":      p.Send([]byte("x")),
		"Poll":      errorOf(p.Poll(ctx, messages.Poll{})),
		"Info":      errorOf(p.Info(ctx)),
	} {
		t.Run(name, func(t *testing.T) { wantError(t, err, messages.ErrInvalidRequest, "there is none") })
	}
	for _, err := range p.Follow(ctx, 0) {
		wantError(t, err, messages.ErrInvalidRequest, "there is none")
	}
	if _, exited := p.Status(); exited || p.ID() != 0 || p.PID() != 0 || p.Call() != "" {
		t.Error("a nil process has a name or has exited")
	}
}
