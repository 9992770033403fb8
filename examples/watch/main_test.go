package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes this test binary the program. batchVariable is how long the program waits for further changes.
const (
	roleVariable  = "EXECBUS_EXAMPLE_ROLE"
	batchVariable = "EXECBUS_EXAMPLE_BATCH"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "watch" {
		if longer, err := time.ParseDuration(os.Getenv(batchVariable)); err == nil {
			batch = longer
		}
		main()
		return
	}
	os.Exit(m.Run())
}

// lines is how many lines a command prints: more than a pipe holds.
const lines = 50000

// host is the running program.
type host struct {
	*testing.T
	command *exec.Cmd
	dir     string // the watched directory
	state   string // where the commands write
}

func watch(t *testing.T, arguments ...string) *host {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{T: t, dir: t.TempDir(), state: t.TempDir()}
	h.command = exec.Command(self, arguments...)
	h.command.Dir = h.dir
	h.command.Env = append(os.Environ(), roleVariable+"=watch", "STATE="+h.state, "EXECBUS_MARK="+h.state)
	out, err := os.Create(filepath.Join(h.state, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	messages, err := os.Create(filepath.Join(h.state, "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Close()
	h.command.Stdout, h.command.Stderr = out, messages
	if err := h.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.command.Process.Kill()
		_ = h.command.Wait()
	})
	h.until("it watches", func() bool { return strings.Contains(h.text("err"), "watching") })
	return h
}

func (h *host) text(name string) string {
	text, _ := os.ReadFile(filepath.Join(h.state, name))
	return string(text)
}

func (h *host) until(what string, holds func() bool) {
	h.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.Fatalf("not in time: %s; it said %.300q", what, h.text("err"))
		}
	}
}

// change makes one change, however long it takes: a file that is created and then written changes twice.
func (h *host) change(name string) {
	h.Helper()
	whole := filepath.Join(h.state, "changed")
	if err := errors.Join(os.WriteFile(whole, []byte("changed"), 0o600), os.Rename(whole, filepath.Join(h.dir, name))); err != nil {
		h.Fatal(err)
	}
}

// stop ends the host. The host must say so, and leave nothing behind.
func (h *host) stop(sig syscall.Signal) {
	h.Helper()
	if err := h.command.Process.Signal(sig); err != nil {
		h.Fatal(err)
	}
	if err := h.command.Wait(); sig != syscall.SIGKILL && err != nil {
		h.Errorf("it ended with %v", err)
	}
	h.until("nothing is left", func() bool { return len(h.marked("")) == 0 })
}

// marked returns the processes below this host that have a word on their command line.
func (h *host) marked(word string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err == nil && bytes.Contains(text, []byte("EXECBUS_MARK="+h.state)) && bytes.Contains(line, []byte(word)) {
			found = append(found, file)
		}
	}
	return found
}

// numbered is the output of seq.
func numbered(times int) string {
	var one strings.Builder
	for n := range lines {
		fmt.Fprintln(&one, n+1)
	}
	return strings.Repeat(one.String(), times)
}

// A command runs once for each name that matches, one at a time, and every byte arrives although it exits at once.
func TestEveryLineArrives(t *testing.T) {
	h := watch(t, "-r", `\.txt$`, "sh", "-c", fmt.Sprintf("echo {} >>$STATE/names; exec seq %d", lines))
	h.change("a.go")
	h.change(".hidden.txt")
	h.change("a.txt~")
	whole := filepath.Join(h.state, "new") // a directory that already has files when it appears
	if err := errors.Join(os.MkdirAll(filepath.Join(whole, "deep"), 0o755), os.WriteFile(filepath.Join(whole, "deep", "b.txt"), nil, 0o600),
		os.Rename(whole, filepath.Join(h.dir, "new"))); err != nil {
		t.Fatal(err)
	}
	h.change("a.txt")
	h.until("two runs have been passed on", func() bool { return len(h.text("out")) >= len(numbered(2)) })
	h.stop(syscall.SIGINT)
	if out := h.text("out"); out != numbered(2) {
		t.Errorf("%d bytes arrived, want %d", len(out), len(numbered(2)))
	}
	if names := h.text("names"); names != "new/deep/b.txt\na.txt\n" && names != "a.txt\nnew/deep/b.txt\n" {
		t.Errorf("it ran for %q", names)
	}
}

// A command that does not name the file runs once for a burst of changes.
func TestABurstIsOneRun(t *testing.T) {
	t.Setenv(batchVariable, "2s")
	h := watch(t, "sh", "-c", "echo run; ls; exit 3")
	for n := range 20 {
		h.change(fmt.Sprint(n))
	}
	h.until("the run has failed", func() bool { return strings.Contains(h.text("err"), "code(3)") })
	h.change("again")
	h.until("it ran again", func() bool { return strings.Contains(h.text("out"), "again") })
	h.stop(syscall.SIGTERM)
	if n := strings.Count(h.text("out"), "run"); n != 2 {
		t.Errorf("it ran %d times", n)
	}
}

// A change does not stop a command that is not a service. The command runs once more afterwards.
func TestAChangeDuringARun(t *testing.T) {
	h := watch(t, "sh", "-c", "echo begun; sleep 1; echo ended")
	h.change("first")
	h.until("it runs", func() bool { return h.text("out") == "begun\n" })
	h.change("second")
	h.until("it ran again", func() bool { return strings.Count(h.text("out"), "ended") == 2 })
	h.stop(syscall.SIGINT)
	if out := h.text("out"); out != "begun\nended\nbegun\nended\n" {
		t.Errorf("it said %q", out)
	}
}

// The output of a service that is restarted arrives to its end, and its daemons end with it.
func TestAServiceIsRestarted(t *testing.T) {
	script := fmt.Sprintf(`trap 'seq %d; exit' TERM; setsid sh -c 'echo >>$STATE/begun; exec sleep 1000' & while :; do sleep 0.05; done`, lines)
	h := watch(t, "-s", "sh", "-c", script)
	for n := range 3 {
		h.until("it runs", func() bool { return len(h.text("begun")) == n+1 && len(h.marked("1000")) > 0 })
		if n < 2 {
			h.change("file")
		}
	}
	if n := len(h.marked("sleep\x001000")); n > 1 {
		t.Errorf("%d daemons are alive, want only the last one", n)
	}
	h.stop(syscall.SIGINT)
	if out := h.text("out"); out != numbered(3) {
		t.Errorf("%d bytes arrived, want %d", len(out), len(numbered(3)))
	}
}

func TestNothingIsLeftWhenItIsKilled(t *testing.T) {
	h := watch(t, "-s", "sh", "-c", `setsid sh -c 'echo >>$STATE/begun; exec sleep 1000' & exec sleep 1000`)
	h.until("it runs", func() bool { return h.text("begun") != "" })
	h.stop(syscall.SIGKILL)
}

func TestAProgramThatIsNotFound(t *testing.T) {
	h := watch(t, "-s", "./server")
	h.until("it says so", func() bool { return strings.Contains(h.text("err"), "./server") })
	server := filepath.Join(h.state, "server")
	if err := errors.Join(os.WriteFile(server, []byte("#!/bin/sh\necho found\nexec sleep 1000\n"), 0o700), os.Rename(server, filepath.Join(h.dir, "server"))); err != nil {
		t.Fatal(err)
	}
	h.until("it runs", func() bool { return h.text("out") == "found\n" })
	h.stop(syscall.SIGINT)
}
