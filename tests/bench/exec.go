package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tools"
)

// manyExecs is how many commands a session may have by default, and manyShells how many live beside what is measured.
const (
	manyExecs  = execbus.DefaultSessionMaxProcesses
	manyShells = 1000
)

// ratio are the metrics of a row that is judged by the ratio of the medians.
func ratio(limit float64, more ...metric) []metric {
	return append([]metric{{judge: atMost, limit: limit}, tail}, more...)
}

func execRows() []row {
	ends := metric{name: "ended", of: "ended"}
	all := []row{
		{name: "exec-result", about: program + " on pipes by Session.Exec, to its result", metrics: ratio(1.6, ends), open: execs(1, false)},
		{name: "exec-pty", about: "the same on a terminal", metrics: ratio(1.6, ends), open: execs(1, true)},
		{name: "exec-64", about: "64 times exec-result at once in one session, to the last result", metrics: ratio(1.3, ends), open: execs(manyExecs, false)},
		{name: "exec-audited", about: "exec-result with an audit log, and without one", metrics: ratio(1.1), open: audited},
		{name: "exec-isolated", about: "exec-result isolated with the host's network, and without a sandbox", metrics: ratio(3.5), open: confined(messages.AssuranceIsolated, true)},
		{name: "exec-isolated-net", about: "exec-result isolated without a network, and without a sandbox", metrics: ratio(4.5), open: confined(messages.AssuranceIsolated, false)},
		{name: "exec-confined", about: "exec-result confined, and without a sandbox", metrics: ratio(1.2), open: confined(messages.AssuranceConfined, false)},
		{name: "tools-exec", about: "true in a shell by the tool exec_command, and by Session.Exec", metrics: ratio(1.2), open: throughTools},
		{name: "patch-3", about: "a patch of three files, confined, and the same writes with os.WriteFile", metrics: []metric{{}, {name: "more", judge: moreMost, limit: 15_000}}, open: patches},
		{name: "first", about: "the first command of a program: Start, OpenSession and Exec", fresh: true, open: first,
			metrics: []metric{{unit: milliseconds, judge: most, limit: 6}, {name: "start", of: "start", unit: milliseconds}}},
	}
	for _, shells := range []int{100, manyShells} {
		all = append(all, row{name: fmt.Sprintf("exec-beside %d", shells), metrics: ratio(1.1), open: beside(shells),
			about: "exec-result beside so many idle shells in the same runtime, and in one that has none"})
	}
	for _, watchers := range []int{100, 1000} {
		all = append(all, row{name: fmt.Sprintf("exec-watched %d", watchers), metrics: ratio(1.5), open: watched(watchers),
			about: "exec-result with so many lossy subscribers of everything, and with one"})
	}
	return all
}

// runner runs a command in a session again and again.
type runner struct {
	session *execbus.Session
	ends    *bus.Subscription
	command messages.ExecCommand
	count   int // at once
}

// runner runs the command once, which may start the warden.
func (s *scope) runner(ctx context.Context, session *execbus.Session, count int, command messages.ExecCommand) *runner {
	ends := get(session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}}))
	s.after(ends.Close)
	r := &runner{session: session, ends: ends, command: command, count: count}
	r.loop(ctx, series{})
	return r
}

// loop notes the time until all results were there, and until all processes had ended, so that the next turn has all slots.
func (r *runner) loop(ctx context.Context, took series) {
	began := time.Now()
	must(together(r.count, func(int) error {
		result, err := r.session.Exec(ctx, r.command)
		if err != nil {
			return err
		}
		return ended(result)
	}))
	took.add("", micros(time.Since(began)))
	r.await(ctx)
	took.add("ended", micros(time.Since(began)))
}

func (r *runner) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range r.count {
		get(r.ends.Next(ctx))
	}
}

// turns is how many turns of a single command are a sample.
func (s *scope) turns() int { return s.some(100, 30) }

// execs compares commands of a session with the bare way.
func execs(count int, tty bool) opener {
	return func(ctx context.Context, s *scope) pair {
		session := s.session()
		ours := s.runner(ctx, session, count, messages.ExecCommand{Argv: []string{program}, TTY: tty})
		return pair{bare: bareRuns(environmentOf(ctx, session), tty, count), ours: ours.loop, turns: max(s.turns()/count, 4)}
	}
}

// against compares exec-result in two sessions, the first of which is the bare way.
func (s *scope) against(ctx context.Context, bare, ours *execbus.Session) pair {
	return pair{bare: s.plain(ctx, bare), ours: s.plain(ctx, ours), turns: s.turns()}
}

// plain is the loop of exec-result in a session.
func (s *scope) plain(ctx context.Context, session *execbus.Session) loop {
	return s.runner(ctx, session, 1, messages.ExecCommand{Argv: []string{program}}).loop
}

// confined compares two sessions of one runtime, of which one has a sandbox that lets its commands write in one directory.
func confined(least messages.Assurance, network bool) opener {
	return func(ctx context.Context, s *scope) pair {
		spawner := s.spawner(sandbox.Options{WithoutNamespaces: least == messages.AssuranceConfined})
		runtime, plain := s.open(execbus.Options{Spawner: spawner}, execbus.SessionOptions{})
		return s.against(ctx, plain, s.inside(runtime, least, network))
	}
}

// audited compares a runtime that has an audit log with one that has none.
func audited(ctx context.Context, s *scope) pair {
	_, recorded := s.open(execbus.Options{Audit: execbus.AuditOptions{File: filepath.Join(s.directory(), "audit.jsonl")}}, execbus.SessionOptions{})
	return s.against(ctx, s.session(), recorded)
}

// beside compares a runtime that has idle shells with one that has none.
func beside(shells int) opener {
	return func(ctx context.Context, s *scope) pair {
		shells := s.some(shells, shells/10)
		runtime, crowd := s.open(execbus.Options{MaxProcesses: shells + 2*atOnce}, crowded(shells))
		openShells(ctx, crowd, shells)
		return s.against(ctx, s.session(), get(runtime.OpenSession(execbus.SessionOptions{Dir: "/"})))
	}
}

// watched compares a runtime that has many readers of its events with one that has one.
func watched(watchers int) opener {
	return func(ctx context.Context, s *scope) pair {
		one, many := s.session(), s.session()
		s.reader(one)
		for range watchers {
			s.reader(many)
		}
		return s.against(ctx, one, many)
	}
}

// reader reads all events of a session in a goroutine.
func (s *scope) reader(session *execbus.Session) {
	sub := get(session.Events(execbus.Watch{}))
	s.after(sub.Close)
	go func() {
		for _, err := range sub.All(context.Background()) {
			if err != nil {
				return
			}
		}
	}()
}

// throughTools compares a tool of a model with the call that it stands for.
func throughTools(ctx context.Context, s *scope) pair {
	session := s.session()
	bare := s.runner(ctx, session, 1, messages.ExecCommand{Script: "true", Login: new(false)})
	set := tools.New(session, tools.Options{})
	ours := timed(func(ctx context.Context) error {
		if err := set.Begin(ctx, tools.Request{Name: tools.ExecCommand, Arguments: []byte(`{"cmd":"true","login":false}`)}).Answer().Err; err != nil {
			return err
		}
		return nil
	})
	return pair{bare: bare.loop, turns: s.turns(), ours: func(ctx context.Context, took series) {
		ours(ctx, took)
		bare.await(ctx)
	}}
}

// patches compares a patch that changes three files with writing them.
func patches(_ context.Context, s *scope) pair {
	spawner := s.spawner(sandbox.Options{WithoutNamespaces: true})
	runtime, _ := s.open(execbus.Options{Spawner: spawner, StateDir: s.directory()}, execbus.SessionOptions{})
	session, dir := s.inside(runtime, messages.AssuranceConfined, false), s.directory()
	must(session.UpdateEnvironment(context.Background(), messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite,
		WritableRoots: []string{dir}}}))
	write := func(text string) error {
		var failed error
		for _, name := range []string{"a", "b", "c"} {
			failed = errors.Join(failed, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		return failed
	}
	must(write("old\n"))
	from, to := "old", "new"
	return pair{bare: timed(func(context.Context) error { return write(from + "\n") }), turns: s.some(30, 10), ours: timed(func(ctx context.Context) error {
		text := "*** Begin Patch\n"
		for _, name := range []string{"a", "b", "c"} {
			text += "*** Update File: " + filepath.Join(dir, name) + "\n@@\n-" + from + "\n+" + to + "\n"
		}
		_, err := session.ApplyPatch(ctx, messages.ApplyPatch{Text: text + "*** End Patch"})
		from, to = to, from
		return err
	})}
}

// first is measured in a fresh process: later runtimes of a process find the code in memory.
func first(_ context.Context, s *scope) pair {
	return pair{ours: func(ctx context.Context, took series) {
		began := time.Now()
		session := s.session()
		took.add("start", millis(time.Since(began)))
		get(session.Exec(ctx, messages.ExecCommand{Argv: []string{program}}))
		took.add("", millis(time.Since(began)))
	}}
}
