package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

const (
	program = "/bin/true"
	// patience bounds the wait for an event or for an end: what does not come must not hang the run.
	patience = time.Minute
)

// open starts a runtime with one session.
func (s *scope) open(options execbus.Options, session execbus.SessionOptions) (*execbus.Runtime, *execbus.Session) {
	runtime := get(execbus.Start(options))
	s.after(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = runtime.Shutdown(ctx)
	})
	session.Dir = "/"
	return runtime, get(runtime.OpenSession(session))
}

// session starts a runtime of default options with one session.
func (s *scope) session() *execbus.Session {
	_, session := s.open(execbus.Options{}, execbus.SessionOptions{})
	return session
}

// inside opens a session whose commands can write in one temporary directory only.
func (s *scope) inside(runtime *execbus.Runtime, least messages.Assurance, network bool) *execbus.Session {
	return get(runtime.OpenSession(execbus.SessionOptions{Dir: s.directory(), LeastAssurance: least, Sandbox: &messages.SandboxPolicy{
		Type: messages.SandboxWorkspaceWrite, NetworkAccess: network, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}}))
}

func (s *scope) directory() string {
	dir := get(os.MkdirTemp("", "bench-"))
	s.after(func() { _ = os.RemoveAll(dir) })
	return dir
}

// build builds programs into a directory. They are not part of this program, which links much that they do not need.
func (s *scope) build(ctx context.Context, packages ...string) (dir string) {
	dir = s.directory()
	args := []string{"build", "-o", dir + "/"}
	for _, name := range packages {
		args = append(args, "github.com/execbus/execbus/"+name)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the static binaries that people get
	if out, err := build.CombinedOutput(); err != nil {
		must(fmt.Errorf("the programs to measure cannot be built: %w\n%s", err, out))
	}
	return dir
}

// together calls do so many times at once.
func together(count int, do func(i int) error) error {
	failed := make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { failed[i] = do(i) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// bareRuns is a loop of the bare way to run a program, so many at once: creack/pty, or os/exec with a buffer for each stream.
func bareRuns(env []string, tty bool, count int) loop {
	run := func(int) error {
		cmd := exec.Command(program)
		cmd.Env, cmd.Dir = env, "/"
		if !tty {
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			return cmd.Run()
		}
		terminal, err := pty.Start(cmd)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, terminal) // EIO is the end
		_ = terminal.Close()
		return cmd.Wait()
	}
	return timed(func(context.Context) error { return together(count, run) })
}

// environment returns the environment of children where no session makes one.
func environment() []string { return []string{"PATH=" + os.Getenv("PATH"), "TERM=dumb"} }

// environmentOf returns the environment that a command of the session gets, so that the bare way can have the same.
func environmentOf(ctx context.Context, session *execbus.Session) []string {
	result := get(session.Exec(ctx, messages.ExecCommand{Argv: []string{"env", "-0"}}))
	must(ended(result))
	return strings.Split(strings.TrimSuffix(string(result.Output), "\x00"), "\x00")
}

// ended complains about a result that is not that of a command which did what it should.
func ended(result *messages.Result) error {
	if result.Running || result.Status != messages.StatusExited(0) {
		return fmt.Errorf("a command ended with %s, running: %v: %q", result.Status, result.Running, result.Output)
	}
	return nil
}

const (
	// atOnce bounds the shells that start at the same time, and shellWait how long each may take for its prompt.
	atOnce    = 100
	shellWait = 30 * time.Second
)

// crowded are the options of a session that may have so many processes.
func crowded(processes int) execbus.SessionOptions {
	return execbus.SessionOptions{MaxProcesses: processes + atOnce, WarnProcesses: processes + atOnce}
}

// openShells starts interactive shells and waits for their prompts.
func openShells(ctx context.Context, session *execbus.Session, count int) {
	argv := []string{"/bin/sh", "-i"}
	if bash, err := exec.LookPath("bash"); err == nil {
		argv = []string{bash, "--norc", "--noprofile", "-i"}
	}
	slots := make(chan struct{}, atOnce)
	must(together(count, func(int) error {
		slots <- struct{}{}
		defer func() { <-slots }()
		p, err := session.Start(ctx, messages.ExecCommand{Argv: argv, TTY: true})
		for began := time.Now(); err == nil; time.Sleep(shellWait / 1000) {
			page, failed := session.Read(ctx, messages.ReadOutput{Process: p.ID(), Tail: 64})
			switch err = failed; {
			case err != nil:
			case len(page.Chunks) > 0 && bytes.HasSuffix(page.Chunks[len(page.Chunks)-1].Bytes, []byte(" ")):
				return nil
			case time.Since(began) > shellWait:
				err = errors.New("a shell printed no prompt")
			}
		}
		return err
	}))
}
