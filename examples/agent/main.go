// Command agent is an agent without a model: a list of answers takes its place. It shows how a host uses execbus in a
// turn. It offers the tools of package tools, makes the calls that come back, gives the model their texts, asks a person, and
// leaves nothing behind at the end.
//
// It repairs a small program in a temporary directory, and asks a person on the terminal before it removes anything.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

func main() {
	person := &person{in: bufio.NewReader(os.Stdin), out: os.Stdout}
	if _, err := run(context.Background(), os.Stdout, person, repair); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// call is a request of the model: a tool with its arguments in JSON.
type call struct {
	Say       string // to the person
	Tool      string
	Arguments string
}

// model answers with the next call, or nil when it is done. A host would ask a real model over the network, with the whole
// conversation and the schemas of the tools. Here the text of the last answer is enough.
type model func(turn int, last string) *call

// repair is a model that already knows the error.
func repair(turn int, last string) *call {
	switch {
	case turn == 0:
		return &call{"I look at what is there.", "exec_command", `{"cmd": "ls; cat add.sh"}`}
	case turn == 1:
		return &call{"I run the tests.", "exec_command", `{"cmd": "sh test.sh"}`}
	case turn == 2 && strings.Contains(last, "FAIL"):
		return &call{"I make room first.", "exec_command", `{"cmd": "rm -rf old"}`}
	case turn == 3 && strings.Contains(last, "a person said no"):
		return &call{"Then not. I try it in a shell.", "exec_command", `{"cmd": "sh", "tty": true, "yield_time_ms": 250}`}
	case turn == 4 && strings.Contains(last, "session ID"):
		id := strings.Fields(last[strings.Index(last, "session ID"):])[2]
		return &call{"", "write_stdin", `{"session_id": ` + id + `, "chars": "echo $((2 + 3))\n"}`}
	case turn == 5 && strings.Contains(last, "5"):
		return &call{"It has to be a plus.", "exec_command", `{"cmd": "sed -i.old 's/ - / + /' add.sh && sh test.sh"}`}
	default:
		return nil
	}
}

// run lets a model work in a directory of its own, and returns the conversation.
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
	options := execbus.SessionOptions{Dir: dir, Approver: person}
	session, err := rt.OpenSession(options)
	if err != nil {
		return nil, err
	}
	watched, err := watch(session, out)
	if err != nil {
		return nil, err
	}
	offer := tools.Options{Session: options}
	for _, tool := range tools.List(offer) { // a real model gets the descriptions and the schemas, too
		fmt.Fprintln(out, "offered:", tool.Name)
	}
	set := tools.New(session, offer)
	last := ""
	for turn := 0; ; turn++ {
		next := m(turn, last)
		if next == nil {
			break
		}
		if next.Say != "" {
			fmt.Fprintln(out, "model:", next.Say)
		}
		if last, err = do(ctx, set, *next); err != nil {
			return conversation, err
		}
		conversation = append(conversation, last)
	}
	err = session.Close(ctx) // this also ends the shell, which still runs
	watched()
	fmt.Fprintln(out, "model: Done.")
	return conversation, err
}

// do makes a call and returns the text for the model. It turns an error into text if the model can do something about it.
func do(ctx context.Context, set *tools.Set, c call) (string, error) {
	answer := set.Begin(ctx, tools.Request{Name: c.Tool, Arguments: json.RawMessage(c.Arguments)}).Answer()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case answer.Err != nil && answer.Err.Code == messages.ErrAborted:
		return "", fmt.Errorf("the person wants to stop: %w", answer.Err)
	}
	return answer.Text, nil
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
	return func() { events.End(); <-done }, nil
}

// broken makes a program that subtracts instead of adding, and a test that finds the error.
func broken() (string, error) {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		return "", err
	}
	return dir, errors.Join(
		os.WriteFile(filepath.Join(dir, "add.sh"), []byte("echo $(($1 - $2))\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "test.sh"), []byte("if [ \"$(sh add.sh 2 3)\" = 5 ]; then echo PASS; else echo FAIL; exit 1; fi\n"), 0o644))
}
