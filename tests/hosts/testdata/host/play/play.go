// Package play is what all hosts here do.
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

// alone is a host with one runtime. Its copy, if it makes one, has all that it has.
func alone(h *host, token string) {
	when := os.Getenv("FORK")
	if when == "and go on" { // before the command: a copy would have its input, too
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

// run starts a command that leaves a daemon, says who its parent is when that is up, and waits for the end of its input.
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

// await returns when a command has said something, and so has its daemon.
func await(p *execbus.Process) {
	for _, err := range p.Follow(ctx, 0) {
		must(err)
		return
	}
}

// end ends the input of a command, and says what it said and how it ended.
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

// all is everything that a command says.
func all(p *execbus.Process) (said string) {
	for event, err := range p.Follow(ctx, 0) {
		must(err)
		delta, is := event.(messages.OutputDelta)
		if !is {
			must(errors.New("output is missing"))
		}
		said += string(delta.Bytes)
	}
	return said
}

func (h *host) output(script string) string { return all(h.start(script)) }

// notices says what a runtime tells the people who run the host.
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
