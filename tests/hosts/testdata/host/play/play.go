// Package play is the common part of all hosts here.
package play

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	_ "a.example/host/early"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

var ctx = context.Background()

// Play starts runtimes and commands as the environment says.
func Play() {
	switch path, _ := os.Executable(); os.Getenv("BINARY") {
	case "deleted":
		must(os.Remove(path))
	case "replaced":
		must(os.Remove(path))
		must(os.WriteFile(path, []byte("#!/bin/sh\necho replaced >&2\nexit 3\n"), 0o755))
	}
	if os.Getenv("CHILDREN") == "ignored" {
		signal.Ignore(syscall.SIGCHLD)
	}
	first, tokens := open(), strings.Fields(os.Getenv("TOKENS"))
	if len(tokens) == 1 {
		alone(first, tokens[0])
		return
	}
	second := open()
	one, other := first.run(tokens[0]), second.run(tokens[1])
	await(one)
	await(other)
	end(one)
	first.shut()
	fmt.Println("the other daemon:", strings.Count(second.output("pgrep -xf 'sleep "+tokens[1]+"'"), "\n"))
	end(other)
	second.shut()
}

// alone is a host with one runtime. If it makes a copy of itself, the copy has all its descriptors.
func alone(h *host, token string) {
	when := os.Getenv("FORK")
	if when == "and go on" { // before the command, because a copy would keep its input open
		fmt.Println("copy:", fork())
	}
	p := h.run(token)
	if when == "and die" {
		await(p)
		fmt.Println("copy:", fork())
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	end(p)
	h.shut()
}

// host is one runtime with one session.
type host struct {
	runtime *execbus.Runtime
	session *execbus.Session
}

func open() *host {
	var policy messages.EnvironmentPolicy
	if exclude := os.Getenv("EXCLUDE"); exclude != "" {
		policy.Exclude = []string{exclude}
	}
	runtime, err := execbus.Start(execbus.Options{WardenEnvironment: policy, Logger: slog.New(notices{})})
	must(err)
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
	must(err)
	return &host{runtime, session}
}

func (h *host) shut() { must(h.runtime.Shutdown(ctx)) }

// run starts a command that leaves a daemon behind. When the daemon runs, the command prints its parent and waits for the
// end of its input.
func (h *host) run(token string) *execbus.Process {
	return h.start(`(` + os.Getenv("BEFORE") + ` sleep ` + token + ` </dev/null >/dev/null 2>&1 &)
		until pgrep -xf "sleep ` + token + `" >/dev/null; do :; done
		tr '\0' ' ' </proc/$PPID/cmdline; echo; read x; exit 7`)
}

func (h *host) start(script string) *execbus.Process {
	p, err := h.session.Start(ctx, messages.ExecCommand{Argv: []string{"bash", "-c", script}, OpenStdin: true})
	must(err)
	return p
}

// await returns when a command has printed something, which it does when its daemon runs.
func await(p *execbus.Process) {
	for _, err := range p.Follow(ctx, 0) {
		must(err)
		return
	}
}

// end ends the input of a command, and prints its output and how it ended.
func end(p *execbus.Process) {
	must(p.CloseStdin(ctx))
	said := all(p)
	status, err := p.Wait(ctx)
	if err != nil {
		fmt.Println("error:", err)
	}
	record, err := p.Terminate(ctx)
	must(err)
	fmt.Printf("parent: %s\n%s, ended %d, %d survivors, airtight %v\n", strings.TrimSpace(said), status, record.Tree.Ended,
		len(record.Tree.Survivors), record.Tree.Airtight)
}

// all returns the whole output of a command.
func all(p *execbus.Process) (said string) {
	for event, err := range p.Follow(ctx, 0) {
		must(err)
		switch event := event.(type) {
		case messages.OutputDelta:
			said += string(event.Bytes)
		case messages.CaughtUp:
		default:
			must(errors.New("output is missing"))
		}
	}
	return said
}

func (h *host) output(script string) string { return all(h.start(script)) }

// notices prints the notices of a runtime to the people who run the host.
type notices struct{ slog.Handler }

func (notices) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (n notices) WithAttrs([]slog.Attr) slog.Handler             { return n }
func (n notices) WithGroup(string) slog.Handler                  { return n }
func (notices) Handle(_ context.Context, r slog.Record) error {
	fmt.Println("notice:", r.Message)
	return nil
}

func must(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}
