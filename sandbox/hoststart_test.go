//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// spawnWith tries to spawn with a script in place of a warden.
func spawnWith(t *testing.T, script string, hello time.Duration) error {
	t.Helper()
	spawner := newSpawner(t, sandbox.Impatient(sandbox.Options{Warden: write(t, 0o755, script)}, soon, hello, patience))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l := launch(false, "true")
	l.Events = newRecorder().receive
	_, err := spawner.Spawn(ctx, l)
	return err
}

func TestAWardenThatDoesNotStartSaysWhyAndWhatHelps(t *testing.T) {
	err := spawnWith(t, "#!/bin/sh\necho 'panic: NEEDED is not set' >&2\nexit 9\n", patience)
	var typed *messages.Error
	if !errors.As(err, &typed) || typed.Code != messages.ErrSpawnFailed {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"did not start", "panic: NEEDED is not set", "9", "Options.Warden", "direct spawner"} {
		if !strings.Contains(err.Error()+" "+typed.Hint, part) {
			t.Errorf("without %q: %v; %s", part, err, typed.Hint)
		}
	}
}

func TestAWardenThatHangsBeforeItsStartIsGivenUp(t *testing.T) {
	token := newToken()
	err := spawnWith(t, "#!/bin/sh\nexec sleep "+token+"\n", 4*soon)
	if err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("error %v", err)
	}
	noneLeft(t, token)
}

func TestAnotherProgramCanBeTheWarden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "another")
	copyFile(t, self(t), path)
	spawner := newSpawner(t, sandbox.Options{Warden: path})
	child, record := run(t, spawner, launch(false, "cat"))
	exe, err := os.Readlink("/proc/" + strconv.Itoa(wardenAbove(child.PID())) + "/exe")
	if err != nil || exe != path {
		t.Errorf("the warden executes %s, %v", exe, err)
	}
	child.EndTree(0)
	record.awaitEnd(t)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	source, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, source); err != nil {
		t.Fatal(err)
	}
}

// says runs this test binary as a host that prints the result of its first command.
func says(t *testing.T, argv []string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	host := exec.CommandContext(ctx, argv[0], argv[1:]...)
	host.Env = environment(append(env, roleVariable+"=says")...)
	var out bytes.Buffer
	host.Stdout, host.Stderr = &out, &out
	if err := host.Run(); err != nil {
		t.Logf("%v: %v", argv, err)
	}
	return out.String()
}

func TestAHostThatWouldGetRightsByBeingExecutedHasNoWarden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "setuid")
	copyFile(t, self(t), path)
	if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	out := says(t, []string{path})
	if !strings.Contains(out, "notice: ") || !strings.Contains(out, "gives rights") || !strings.Contains(out, "error: <nil>") {
		t.Errorf("it says %s", out)
	}
	if out := says(t, []string{path}, "WARDEN="+self(t)); strings.Contains(out, "notice: ") || !strings.Contains(out, "error: <nil>") {
		t.Errorf("with a warden of its own it says %s", out)
	}
}

func TestCommandsDoNotRegainWhatASetUIDHostHasDropped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a program that becomes root")
	}
	folder, err := os.MkdirTemp("/tmp", "execbus-test") // where an ordinary user can look
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "setuid")
	copyFile(t, self(t), path)
	if err := errors.Join(os.Chmod(path, 0o755|os.ModeSetuid), os.Chmod(folder, 0o755)); err != nil {
		t.Fatal(err)
	}
	ordinary := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", path}
	const script = "ARGV=grep Uid /proc/self/status" // not in a shell, which would drop its rights by itself
	if out := says(t, ordinary, script); !strings.Contains(out, `Uid:\t65534\t0\t0\t0`) {
		t.Skip("set-uid programs do not become root here: ", out)
	}
	if out := says(t, ordinary, script, "DROPS=1"); !strings.Contains(out, `Uid:\t65534\t65534\t65534\t65534`) {
		t.Errorf("it says %s", out)
	}
}

func TestNothingIsStartedWhereProcIsThatOfStrangers(t *testing.T) {
	in := []string{"unshare", "--pid", "--fork"}
	if os.Geteuid() != 0 {
		in = append(in, "--user", "--map-root-user")
	}
	if out, err := exec.Command(in[0], append(in[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no pid namespaces here: %v %s", err, out)
	}
	for _, spawner := range []string{"warden", "direct"} {
		out := says(t, append(in, self(t)), "SPAWNER="+spawner)
		if !strings.Contains(out, "another pid namespace") || !strings.Contains(out, "mount the proc") {
			t.Errorf("%s: it says %s", spawner, out)
		}
	}
	if out := says(t, append(in, "--mount-proc", self(t))); !strings.Contains(out, "error: <nil>") {
		t.Errorf("with a /proc of its own it says %s", out)
	}
}

func TestCommandsEndWhenTheirHostExecutesAnotherProgram(t *testing.T) {
	first, second := newToken(), newToken()
	host, _ := startHost(t, "again", "FIRST="+first, "SECOND="+second)
	eventually(t, "the second life has a command", func() bool { return len(sleepers(second)) == 1 })
	noneLeft(t, first)
	_ = host.Process.Kill()
	noneLeft(t, second)
}
