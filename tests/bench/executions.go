package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

const (
	trueLoop = `i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done`
	newLoop  = `i=0; while [ $i -lt %d ]; do /bin/true $i; i=$((i+1)); done`
	busyLoop = `while :; do /bin/true; done`
	goBuild  = `GOCACHE=%s go build %s`
	// A rule that names true, which the loops do not meet, and one that names nothing of what they execute.
	namesTrue = `prefix_rule(["true", "--version"], decision="forbidden")`
	namesCurl = `prefix_rule(["curl"], decision="forbidden")`
)

func executionRows() []row {
	return []row{
		{name: "executed-named", about: "1,000 /bin/true in a shell's loop, which a rule names", metrics: ratio(1.35), open: executing(trueLoop, namesTrue)},
		{name: "executed-new", about: "the same with a new argument each time, so that the host judges each", metrics: ratio(2), open: executing(newLoop, namesTrue)},
		{name: "executed-other", about: "the loop, where no rule names what it executes", metrics: ratio(1.2), open: executing(trueLoop, namesCurl)},
		{name: "executed-build", about: "go build of package ptyio from scratch, where no rule names a program of it", metrics: ratio(1.05), open: building("./ptyio")},
		{name: "executed-build-all", about: "go build of all packages of this repository from scratch", demand: long, metrics: ratio(1.05), open: building("./...")},
		{name: "executed-beside", about: "executed-other beside a tree that executes all the time, seen and unseen", metrics: ratio(2), open: executedBeside},
	}
}

// judged are executions of which those with a name are judged, and allowed.
func judged(name string) *ptyio.Executions {
	return &ptyio.Executions{Names: []string{name}, Judge: func(context.Context, ptyio.Execution, func()) (ptyio.Verdict, func(error)) { return ptyio.Allowed, nil }}
}

// confinedLaunch is a script in the directory of this repository, confined to a directory of its own.
func (s *scope) confinedLaunch(ctx context.Context, spawner ptyio.Spawner, script string) ptyio.Launch {
	dir := get(os.MkdirTemp("", "executions"))
	s.after(func() { _ = os.RemoveAll(dir) })
	e := get(spawner.Enclose(ctx, ptyio.Confinement{Dir: dir, Least: messages.AssuranceConfined,
		Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}}))
	s.after(e.Release)
	return ptyio.Launch{Argv: []string{"/bin/sh", "-c", script}, Env: append(os.Environ(), "TMPDIR="+dir), Dir: repository(), Sandbox: e}
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// toEnd runs a launch to the end of its tree.
func toEnd(ctx context.Context, spawner ptyio.Spawner, l ptyio.Launch) error {
	over, status := make(chan struct{}), messages.StatusNone()
	l.Events = func(event ptyio.Event) {
		switch event := event.(type) {
		case ptyio.Output:
			event.Release()
		case ptyio.Exited:
			status = event.Status
		case ptyio.TreeEnded:
			close(over)
		}
	}
	if _, err := spawner.Spawn(ctx, l); err != nil {
		return err
	}
	select {
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	if status != messages.StatusExited(0) {
		return fmt.Errorf("the script ended with %s", status)
	}
	return nil
}

// executing compares the loop of a shell in a session in which rules hold for what it executes with one in which they do not.
func executing(script, rules string) opener {
	return func(_ context.Context, s *scope) pair {
		return s.executing(fmt.Sprintf(script, s.some(1000, 100)), rules, func() {})
	}
}

// building does so with "go build" from an empty cache.
func building(packages string) opener {
	return func(_ context.Context, s *scope) pair {
		cache := filepath.Join(s.directory(), "cache")
		return s.executing(fmt.Sprintf(goBuild, cache, packages), namesCurl, func() { must(os.RemoveAll(cache)) })
	}
}

// executing compares the two sessions with a script, and calls after when it has run.
func (s *scope) executing(script, rules string, after func()) pair {
	file := filepath.Join(s.directory(), "it.rules")
	must(os.WriteFile(file, []byte(rules), 0o600))
	spawner := s.spawner(sandbox.Options{WithoutNamespaces: true})
	runtime, _ := s.open(execbus.Options{Spawner: spawner, Rules: []execbus.RuleLayer{{Files: []string{file}, Trusted: true}}}, execbus.SessionOptions{})
	run := func(mode messages.ExecutionMode) loop {
		session := get(runtime.OpenSession(execbus.SessionOptions{Dir: repository(), LeastAssurance: messages.AssuranceConfined, Executions: mode,
			Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}}))
		return timed(func(ctx context.Context) error {
			result, err := session.Run(ctx, messages.RunCommand{Argv: []string{"/bin/sh", "-c", script}})
			if err == nil && result.ExitCode != 0 {
				err = fmt.Errorf("the script ended with %s: %q", result.Status, result.Stderr)
			}
			after()
			return err
		})
	}
	return pair{bare: run(messages.ExecutionsOff), ours: run(messages.ExecutionsEnforce)}
}

// repository is the directory of this one, if it is a parent of ours.
func repository() string {
	here := get(os.Getwd())
	for len(here) > 1 && !isFile(filepath.Join(here, "go.mod")) {
		here = filepath.Dir(here)
	}
	return here
}

// executedBeside has a tree that executes all the time, unseen beside the bare loop and seen beside ours.
func executedBeside(ctx context.Context, s *scope) pair {
	spawner := s.spawner(sandbox.Options{WithoutNamespaces: true})
	measured := s.confinedLaunch(ctx, spawner, fmt.Sprintf(trueLoop, s.some(1000, 100)))
	measured.Executions = judged("curl")
	beside := func(e *ptyio.Executions) loop {
		return func(ctx context.Context, took series) {
			busy := measured
			busy.Argv, busy.Executions = []string{"/bin/sh", "-c", busyLoop}, e
			over := make(chan struct{})
			busy.Events = func(event ptyio.Event) {
				switch event := event.(type) {
				case ptyio.Output:
					event.Release()
				case ptyio.TreeEnded:
					close(over)
				}
			}
			child := get(spawner.Spawn(ctx, busy))
			began := time.Now()
			must(toEnd(ctx, spawner, measured))
			took.add("", micros(time.Since(began)))
			child.EndTree(0)
			<-over
		}
	}
	return pair{bare: beside(nil), ours: beside(&ptyio.Executions{Seen: func([]ptyio.Execution, int) {}})}
}
