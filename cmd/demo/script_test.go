package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestScript(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		input string
		want  outcome
	}{
		"nothing":          {"", outcome{}},
		"a line":           {"echo hi\n", outcome{stdout: "hi\n"}},
		"no newline":       {"printf hi", outcome{stdout: "hi"}},
		"in order":         {"sleep 0.2; echo 1\necho 2\n\n# not this\n  echo 3\n", outcome{stdout: "1\n2\n3\n"}},
		"the last code":    {"exit 3\ntrue\n", outcome{}},
		"and no other":     {"true\nexit 3\n", outcome{code: 3}},
		"a signal":         {"kill -TERM $$\n", outcome{code: 143}},
		"both streams":     {"echo out; echo err >&2\n", outcome{stdout: "out\n", stderr: "err\n"}},
		"no input":         {"cat; echo end\n", outcome{stdout: "end\n"}},
		"no terminal":      {"test -t 1; echo $?\n", outcome{stdout: "1\n"}},
		"bytes":            {`printf '\377\033[2J\r'` + "\n", outcome{stdout: "\xff\x1b[2J\r"}},
		"a verb":           {":ps\n", outcome{stdout: "Nothing runs.\n"}},
		"another place":    {":cd /\npwd\n", outcome{stdout: "/\n"}},
		"no such verb":     {":nosuch\n", outcome{stderr: "demo: there is no :nosuch; :help lists what there is\n", code: 2}},
		"no such process":  {":kill 1000\n", outcome{stderr: "demo: use process 1000: there is no process with this id; list the processes of the session\n", code: 1}},
		"quit":             {"exit 3\n:quit\necho not this\n", outcome{code: 3}},
		"more than a page": {"head -c 3000000 /dev/zero\n", outcome{stdout: strings.Repeat("\x00", 3_000_000)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := demo(t)
			command.Stdin = strings.NewReader(c.input)
			if got := finish(t, command); got != c.want {
				t.Errorf("got %v\nwant %v", got, c.want)
			}
		})
	}
}

// A signal ends the running command, and no further line is read. Shells do the same.
func TestSignalsInAScript(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"INT": {syscall.SIGINT, 130}, "TERM": {syscall.SIGTERM, 143}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(script, []byte(untilInterrupted+"\necho not this\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			command := demo(t)
			input, err := os.Open(script)
			if err != nil {
				t.Fatal(err)
			}
			defer input.Close()
			command.Stdin = input
			out, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			ready := make([]byte, len("begun\n"))
			if _, err := io.ReadFull(out, ready); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_ = command.Process.Signal(c.signal)
			rest, _ := io.ReadAll(out)
			_ = command.Wait()
			if code := command.ProcessState.ExitCode(); code != c.code || len(rest) > 0 {
				t.Errorf("ended with %d, want %d, after %v, and said %q", code, c.code, time.Since(began), rest)
			}
		})
	}
}
