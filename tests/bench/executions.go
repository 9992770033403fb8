package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

const (
	trueLoop = `i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done`
	busyLoop = `while :; do /bin/true; done`
	buildAll = `GOCACHE=$(mktemp -d) && export GOCACHE && go build ./ptyio; code=$?; rm -rf "$GOCACHE"; exit $code`
)

func executionRows() []row {
	return []row{
		{name: "executed-named", about: "1,000 /bin/true in a shell's loop, each allowed by the host", metrics: ratio(1.35), open: executing(trueLoop, "true")},
		{name: "executed-other", about: "the same, where no rule names them", metrics: ratio(1.2), open: executing(trueLoop, "curl")},
		{name: "executed-build", about: "go build of package ptyio from scratch, where no rule names a program of it", metrics: ratio(1.05), open: executing(buildAll, "curl")},
		{name: "executed-beside", about: "executed-other beside a tree that executes all the time, seen and unseen", metrics: ratio(2), open: executedBeside},
	}
}

// judged are executions of which those with a name are judged, and allowed.
func judged(name string) *ptyio.Executions {
	return &ptyio.Executions{Names: []string{name}, Judge: func(context.Context, ptyio.Execution, func()) bool { return true }}
}

// confinedLaunch is a script in the directory of this repository, confined to a directory of its own.
func (s *scope) confinedLaunch(ctx context.Context, spawner ptyio.Spawner, script string) ptyio.Launch {
	dir := get(os.MkdirTemp("", "executions"))
	s.after(func() { _ = os.RemoveAll(dir) })
	e := get(spawner.Enclose(ctx, ptyio.Confinement{Dir: dir, Least: messages.AssuranceConfined,
		Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}}))
	s.after(e.Release)
	here := get(os.Getwd())
	for len(here) > 1 && !isFile(filepath.Join(here, "go.mod")) {
		here = filepath.Dir(here)
	}
	return ptyio.Launch{Argv: []string{"/bin/sh", "-c", script}, Env: append(os.Environ(), "TMPDIR="+dir), Dir: here, Sandbox: e}
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

// executing compares a script whose executions are seen with one whose are not.
func executing(script, name string) opener {
	return func(ctx context.Context, s *scope) pair {
		spawner := s.spawner(sandbox.Options{WithoutNamespaces: true})
		if script == trueLoop {
			script = fmt.Sprintf(trueLoop, s.some(1000, 100))
		}
		off := s.confinedLaunch(ctx, spawner, script)
		on := off
		if on.Executions = judged(name); !get(spawner.Can(on)).Executions {
			must(errors.New("executions cannot be seen here"))
		}
		return pair{bare: timed(func(ctx context.Context) error { return toEnd(ctx, spawner, off) }),
			ours: timed(func(ctx context.Context) error { return toEnd(ctx, spawner, on) })}
	}
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
