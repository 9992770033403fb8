package execbus_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// A write that was cancelled goes on, with the bytes that were given to it: the caller's buffer is its own again.
func TestAWriteHasItsBytesToItself(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		gate := filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		events := watch(t, session, execbus.Watch{})
		id := launch(t, session, bash("head -c 1 >/dev/null; echo begun; read line <"+gate+"; tr -d A | wc -c"))
		buffer := bytes.Repeat([]byte("A"), 512<<10) // a pipe takes 64 KiB of it
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() {
			_, err := session.Write(ctx, messages.WriteStdin{Process: id, Bytes: buffer, UntilTaken: true})
			errs <- err
		}()
		await[messages.OutputDelta](t, events, nil)
		checkCancelled(t, cancel, errs)
		for i := range buffer {
			buffer[i] = 'B'
		}
		if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
		if err := session.CloseStdin(patient(t), messages.CloseStdin{Process: id}); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(strings.TrimPrefix(finish(t, session, id).OutputText(), "begun")); got != "0" {
			t.Errorf("%s bytes came that were not written", got)
		}
	})
}

// A cancelled command starts as it was asked for.
func TestACommandHasItsFieldsToItself(t *testing.T) {
	t.Parallel()
	spawner := &remote{Spawner: newSpawner(t, true), hold: make(chan struct{})}
	session := openSession(t, newRuntime(t, execbus.Options{Spawner: spawner}), execbus.SessionOptions{})
	events := watch(t, session, execbus.Watch{})
	command := messages.ExecCommand{Argv: []string{"bash", "-c", "echo $WORD"},
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"WORD": "asked"}}}
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := session.Exec(ctx, command)
		errs <- err
	}()
	eventually(t, "the spawner works", func() bool { return spawner.spawned.Load() == 1 })
	checkCancelled(t, cancel, errs)
	command.Argv[2] = "echo changed"
	command.Environment.Set["WORD"] = "changed"
	close(spawner.hold)
	if started := await[messages.ExecStarted](t, events, nil); started.Argv[2] != "echo $WORD" {
		t.Errorf("%q was started", started.Argv)
	}
	if end := await[messages.ExecEnded](t, events, nil); string(end.Transcript) != "asked\n" {
		t.Errorf("it said %q", end.Transcript)
	}
}

// What a session was opened with, and what it was changed to, stays.
func TestASessionHasItsSettingsToItself(t *testing.T) {
	t.Parallel()
	say := func(session *execbus.Session, want string) {
		t.Helper()
		elsewhere := t.TempDir() // the environment is made anew
		if err := session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Dir: &elsewhere}); err != nil {
			t.Fatal(err)
		}
		if got := exec(t, session, bash("echo $WORD")).OutputText(); got != want+"\n" {
			t.Errorf("commands find %q, want %q", got, want)
		}
	}
	environment := messages.EnvironmentPolicy{Set: map[string]string{"WORD": "opened"}}
	session := newSession(t, execbus.SessionOptions{Environment: environment})
	environment.Set["WORD"] = "changed"
	say(session, "opened")

	environment.Set["WORD"] = "updated"
	if err := session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Environment: &environment}); err != nil {
		t.Fatal(err)
	}
	environment.Set["WORD"] = "changed"
	say(session, "updated")
}
