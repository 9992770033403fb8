// Command agent is an agent without a model: a list of answers takes its place. It shows what a host does with execbus in a
// turn. It runs commands that go on between calls, sends them input, asks a person, makes text for the model, and leaves
// nothing behind at the end.
//
// It repairs a small program in a temporary directory, and asks a person on the terminal before it removes anything.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func main() {
	person := &person{in: bufio.NewReader(os.Stdin), out: os.Stdout}
	if _, err := run(context.Background(), os.Stdout, person, repair); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// call is what a model asks for. One with Input is for the process that Script started last.
type call struct {
	Say    string // to the person
	Script string
	TTY    bool
	Input  string
}

// model answers with the next call, or nil when it is done. A real one is asked over the network and sees the whole
// conversation; here the result of the last call is enough.
type model func(turn int, last string) *call

// repair is a model that knows what is wrong.
func repair(turn int, last string) *call {
	switch {
	case turn == 0:
		return &call{Say: "I look at what is there.", Script: "ls; cat add.sh"}
	case turn == 1:
		return &call{Say: "I run the tests.", Script: "sh test.sh"}
	case turn == 2 && strings.Contains(last, "FAIL"):
		return &call{Say: "I make room first.", Script: "rm -rf old"}
	case turn == 3 && strings.Contains(last, "not allowed"):
		return &call{Say: "Then not. I try it in a shell.", Script: "sh", TTY: true}
	case turn == 4:
		return &call{Input: "echo $((2 + 3))\n"}
	case turn == 5 && strings.Contains(last, "5"):
		return &call{Say: "It has to be a plus.", Script: "sed -i.old 's/ - / + /' add.sh && sh test.sh"}
	default:
		return nil
	}
}

// run has a model work in a directory of its own, and returns the conversation.
func run(ctx context.Context, out io.Writer, person execbus.Approver, m model) (conversation []string, err error) {
	dir, err := broken()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rt.Shutdown(context.WithoutCancel(ctx))) }()
	session, err := rt.OpenSession(execbus.SessionOptions{Dir: dir, Approver: person})
	if err != nil {
		return nil, err
	}
	watched, err := watch(session, out)
	if err != nil {
		return nil, err
	}
	a := agent{session: session}
	last := ""
	for turn := 0; ; turn++ {
		next := m(turn, last)
		if next == nil {
			break
		}
		if next.Say != "" {
			fmt.Fprintln(out, "model:", next.Say)
		}
		if last, err = a.do(ctx, *next); err != nil {
			return conversation, err
		}
		conversation = append(conversation, last)
	}
	err = session.Close(ctx) // also the shell that still runs
	watched()
	fmt.Fprintln(out, "model: Done.")
	return conversation, err
}

// agent does what a model wants.
type agent struct {
	session *execbus.Session
	shell   messages.ProcessID // for input
}

// do answers a call with text for the model. An error that the model can do something about is text, too.
func (a *agent) do(ctx context.Context, c call) (string, error) {
	var result *messages.Result
	var err error
	if c.Input != "" {
		result, err = a.session.Write(ctx, messages.WriteStdin{Process: a.shell, Bytes: []byte(c.Input), Yield: new(time.Second)})
	} else {
		result, err = a.session.Exec(ctx, messages.ExecCommand{Script: c.Script, TTY: c.TTY, Yield: new(2 * time.Second)})
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, messages.ErrAborted):
		return "", fmt.Errorf("the person wants to stop: %w", err)
	case errors.Is(err, messages.ErrRejected):
		return "That was not allowed: " + err.Error(), nil
	case err != nil:
		return err.Error(), nil
	}
	if result.Running {
		a.shell = result.Process
	}
	return result.Text(), nil
}

// watch shows a person the output of the commands as it comes. It returns a function that waits until all of it is shown.
func watch(session *execbus.Session, out io.Writer) (wait func(), err error) {
	events, err := session.Events(execbus.Watch{})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event, err := range events.All(context.Background()) {
			if err != nil {
				return
			}
			switch e := event.(type) {
			case messages.ExecStarted:
				fmt.Fprintf(out, "[%d] %q\n", e.Process, e.Argv[len(e.Argv)-1])
			case messages.OutputDelta:
				fmt.Fprintf(out, "%s", e.Bytes)
			case messages.ExecEnded:
				fmt.Fprintf(out, "[%d] %s\n", e.Process, &e.EndRecord)
			}
		}
	}()
	return func() { events.Close(); <-done }, nil
}

// broken makes a program that subtracts where it should add, and a test that finds it.
func broken() (string, error) {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		return "", err
	}
	return dir, errors.Join(
		os.WriteFile(filepath.Join(dir, "add.sh"), []byte("echo $(($1 - $2))\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "test.sh"), []byte("if [ \"$(sh add.sh 2 3)\" = 5 ]; then echo PASS; else echo FAIL; exit 1; fi\n"), 0o644))
}
