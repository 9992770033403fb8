// Package play is what all hosts here do.
package play

import (
	"context"
	"fmt"
	"os"
	"strings"

	_ "a.example/host/early"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// Play starts spawners and commands as the environment says.
func Play() {
	switch path, _ := os.Executable(); os.Getenv("BINARY") {
	case "deleted":
		must(os.Remove(path))
	case "replaced":
		must(os.Remove(path))
		must(os.WriteFile(path, []byte("#!/bin/sh\necho replaced >&2\nexit 3\n"), 0o755))
	}
	var policy messages.EnvironmentPolicy
	if exclude := os.Getenv("EXCLUDE"); exclude != "" {
		policy.Exclude = []string{exclude}
	}
	open := func() ptyio.Spawner {
		spawner, err := sandbox.New(sandbox.Options{WardenEnvironment: policy, Notice: func(text string) { fmt.Println("notice:", text) }})
		must(err)
		return spawner
	}
	first, tokens := open(), strings.Fields(os.Getenv("TOKENS"))
	if len(tokens) == 1 {
		run(first, tokens[0], "").end()
		must(first.Close())
		return
	}
	second := open()
	one, other := run(first, tokens[0], "read x"), run(second, tokens[1], "read x")
	await := "until pgrep -xf 'sleep " + tokens[1] + "'; do :; done"
	_ = output(second, await)
	one.end()
	must(first.Close())
	fmt.Println("the other daemon:", strings.Count(output(second, "pgrep -xf 'sleep "+tokens[1]+"'"), "\n"))
	other.end()
	must(second.Close())
}

type command struct {
	child  ptyio.Child
	ended  chan messages.TreeReport
	output *strings.Builder
	closed chan struct{}
}

// run starts a command that leaves a daemon, and waits until that is up.
func run(spawner ptyio.Spawner, token, then string) command {
	return start(spawner, `(`+os.Getenv("BEFORE")+` sleep `+token+` </dev/null >/dev/null 2>&1 &)
		until pgrep -xf "sleep `+token+`" >/dev/null; do :; done
		tr '\0' ' ' </proc/$PPID/cmdline; `+then)
}

func start(spawner ptyio.Spawner, script string) command {
	c := command{ended: make(chan messages.TreeReport, 1), output: &strings.Builder{}, closed: make(chan struct{})}
	l := ptyio.Launch{Argv: []string{"bash", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: "/", OpenStdin: true,
		Events: func(e ptyio.Event) {
			switch e := e.(type) {
			case ptyio.Output:
				c.output.Write(e.Bytes)
				e.Release()
			case ptyio.TreeEnded:
				c.ended <- e.TreeReport
			case ptyio.Closed:
				close(c.closed)
			}
		}}
	child, err := spawner.Spawn(context.Background(), l)
	if err != nil {
		fmt.Println("error:", err)
		return command{}
	}
	c.child = child
	return c
}

// end waits for the end, or brings it about, and says what it was.
func (c command) end() {
	if c.child == nil {
		return
	}
	c.child.CloseStdin(func(error) {})
	report := <-c.ended
	<-c.closed
	fmt.Printf("parent: %s\nended %d, %d survivors, airtight %v\n", strings.TrimSpace(c.output.String()), report.Ended, len(report.Survivors), report.Airtight)
}

func output(spawner ptyio.Spawner, script string) string {
	c := start(spawner, script)
	<-c.ended
	<-c.closed
	return c.output.String()
}

func must(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}
