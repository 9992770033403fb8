package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/tests/proc"
)

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// running is execbus in a process of its own.
type running struct {
	t      *testing.T
	c      *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	errors log
}

// log is what a program has written so far.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *log) Len() int { return len(l.String()) }

func launch(t *testing.T, arguments ...string) *running {
	t.Helper()
	return launchAs(t, "execbus", arguments...)
}

// launchAs launches this test binary in a role.
func launchAs(t *testing.T, role string, arguments ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, c: exec.Command(self, arguments...)}
	r.c.Dir, r.c.Stderr = t.TempDir(), &r.errors
	r.c.Env = append(r.c.Environ(), roleVariable+"="+role, "HOME="+t.TempDir()) // with the PWD of its directory
	r.c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if r.in, err = r.c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out = bufio.NewScanner(out)
	if err := r.c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.c.ProcessState == nil {
			_ = r.c.Process.Kill()
			_ = r.c.Wait()
		}
	})
	return r
}

func (r *running) send(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// line returns the next line on standard output.
func (r *running) line() string {
	r.t.Helper()
	if !r.out.Scan() {
		r.t.Fatalf("there is no more output: %v %s", r.out.Err(), r.errors.String())
	}
	return r.out.Text()
}

// answer returns the answer to a request. Every line before it must be a message.
func (r *running) answer(id string) string {
	r.t.Helper()
	for {
		line := r.line()
		var m struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Version != "2.0" {
			r.t.Fatalf("%q is not the protocol", line)
		}
		if string(m.ID) == id {
			return line
		}
	}
}

// wait waits for the end and returns the exit code.
func (r *running) wait() int {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.c.Wait() }()
	select {
	case err := <-done:
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			r.t.Fatal(err)
		}
		return r.c.ProcessState.ExitCode()
	case <-time.After(patience):
		r.t.Fatal("it does not end")
		return 0
	}
}

// stop interrupts execbus and waits for its end, which must be a success.
func (r *running) stop() {
	r.t.Helper()
	if err := r.c.Process.Signal(os.Interrupt); err != nil {
		r.t.Fatal(err)
	}
	if code := r.wait(); code != 0 {
		r.t.Errorf("exit code %d, %s", code, r.errors.String())
	}
}

// ends are the ways to end a server on standard input and output.
var ends = map[string]func(r *running) error{
	"input":   func(r *running) error { return r.in.Close() },
	"SIGTERM": func(r *running) error { return r.c.Process.Signal(syscall.SIGTERM) },
	"SIGINT":  func(r *running) error { return r.c.Process.Signal(syscall.SIGINT) },
	"SIGHUP":  func(r *running) error { return r.c.Process.Signal(syscall.SIGHUP) },
}

// pidIn waits until a command has written its pid to a file.
func (r *running) pidIn(file string) int {
	r.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if content, _ := os.ReadFile(file); strings.HasSuffix(string(content), "\n") {
			pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
			if err != nil {
				r.t.Fatal(err)
			}
			return pid
		}
	}
	r.t.Fatal("the command does not run")
	return 0
}

// alive says whether there is a process that has not ended. A zombie has.
func alive(pid int) bool { return proc.Look(pid).Alive() }

// status sends a request and returns the status of the answer.
func status(t *testing.T, request *http.Request) int {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
