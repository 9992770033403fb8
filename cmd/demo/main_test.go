package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// roleVariable makes this test binary the real demo, in a process of its own. So the tests need no go tool.
const roleVariable = "EXECBUS_DEMO_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "demo" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// patience bounds every wait of the tests. No wait normally takes nearly as long.
const patience = time.Minute

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// variables makes the demo quick and the same on all machines: no colours, no start-up files.
func variables(t *testing.T, more ...string) []string {
	keep := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NO_COLOR=") || strings.HasPrefix(v, "TERM=") || strings.HasPrefix(v, "ENV=") ||
			strings.HasPrefix(v, "XDG_CONFIG_HOME=")
	})
	home := t.TempDir()
	return append(keep, append([]string{roleVariable + "=demo", "HOME=" + home, "TMPDIR=" + home, "TERM=xterm", "HISTFILE="}, more...)...)
}

// demo makes a command that runs the demo without a terminal.
func demo(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), self(t), arguments...)
	c.Env = variables(t)
	c.WaitDelay = patience
	return c
}

// outcome is the output of a demo and its exit code.
type outcome struct {
	stdout, stderr string
	code           int
}

func (o outcome) String() string {
	return fmt.Sprintf("code %d, %.500q, and on stderr %.500q", o.code, o.stdout, o.stderr)
}

func finish(t *testing.T, c *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		arguments []string
		code      int
		says      string // on stderr
	}{
		{"zero", []string{"--", "true"}, 0, ""},
		{"the command's", []string{"--", "sh", "-c", "exit 3"}, 3, ""},
		{"a signal's", []string{"--", "sh", "-c", "kill -KILL $$"}, 137, ""},
		{"no such program", []string{"--", "execbus-no-such-program"}, 127, "execbus-no-such-program"},
		{"not executable", []string{"--", plain}, 126, plain},
		{"nothing behind --", []string{"--"}, 2, "no command after --"},
		{"no such mode", []string{"ls", "-l"}, 2, "demo -- ls -l"},
		{"no such flag", []string{"-nosuch"}, 2, "-nosuch"},
		{"no terminal", nil, 2, "demo -- COMMAND"},
		{"no such approval policy", []string{"--approval", "sometimes"}, 2, `there is no mode "sometimes"`},
		{"an unknown policy", []string{"--approval", `{"granular": 1}`, "--", "true"}, 2, "granular"},
		{"a policy in JSON", []string{"--approval", `{"granular": {"rules": true}}`, "--", "true"}, 0, ""},
		{"granular", []string{"--approval", "granular", "--", "true"}, 0, ""},
		{"no such sandbox", []string{"--sandbox", "sand"}, 2, `there is no type "sand"`},
		{"no name of a sandbox", []string{"--sandbox", ""}, 2, "it is empty"},
		{"policies of the tour", []string{"--approval", "never", "tour"}, 2, "before tour"},
		{"an unknown scene", []string{"tour", "99"}, 2, "1 to 12"},
		{"two scenes", []string{"tour", "1", "2"}, 2, `no scene "1 2"`},
		{"arguments of the tour", []string{"tour", "x"}, 2, `"x"`},
		{"flags of the tour", []string{"tour", "-nosuch"}, 2, "-nosuch"},
		{"a command called tour", []string{"--", "tour"}, 127, "tour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := finish(t, demo(t, c.arguments...))
			if got.code != c.code || !strings.Contains(got.stderr, c.says) || got.stdout != "" {
				t.Errorf("ended with %d, want %d, and said %q, want %q; on stdout: %q", got.code, c.code, got.stderr, c.says, got.stdout)
			}
			if c.code == 2 && strings.Count(got.stderr, "\n") > 1 {
				t.Errorf("said more than a line: %q", got.stderr)
			}
			if c.says == "" && got.stderr != "" {
				t.Errorf("said %q", got.stderr)
			}
		})
	}
}

// A host without a working directory cannot open a session. This is a failure of execbus and not of the command.
func TestExitCodeOfExecbusItself(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	c := exec.CommandContext(t.Context(), "sh", "-c", `mkdir "$0" && cd "$0" && rmdir "$0" && exec "$1" -- true`, dir, self(t))
	c.Env = variables(t)
	if got := finish(t, c); got.code != 125 || !strings.Contains(got.stderr, "SessionOptions.Dir") {
		t.Errorf("%v", got)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, arguments := range [][]string{{"--help"}, {"-h"}, {"tour", "--help"}} {
		got := finish(t, demo(t, arguments...))
		if got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "Usage:") {
			t.Errorf("%q: %v", arguments, got)
		}
		if !strings.Contains(got.stdout, "exit code") {
			t.Errorf("%q does not explain the exit code", arguments)
		}
	}
}
