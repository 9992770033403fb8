package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

func showShort(ctx context.Context, t *tour, s *scene) error {
	script := `echo to stdout; echo to stderr >&2; exit 3`
	s.say("sh -c '%s', on pipes:", script)
	result, err := t.session.Exec(ctx, messages.ExecCommand{Call: messages.CallID(t.call()), Argv: []string{"/bin/sh", "-c", script}})
	if err != nil {
		return err
	}
	s.quote(tools.Text(result))
	s.fact("process", result.Process)
	s.fact("status", result.Status)
	s.fact("milliseconds", result.WallTime.Milliseconds())
	s.check(!result.Running && result.Status == messages.StatusExited(3), "it has ended, with code 3")
	text := string(result.Output)
	s.check(strings.Contains(text, "to stdout\n") && strings.Contains(text, "to stderr\n"), "the answer has its output from both streams")
	run, err := t.session.Run(ctx, messages.RunCommand{Call: messages.CallID(t.call()), Argv: []string{"/bin/sh", "-c", script}})
	if err != nil {
		return err
	}
	s.check(string(run.Stdout) == "to stdout\n" && string(run.Stderr) == "to stderr\n" && run.ExitCode == 3,
		"a run to the end returns each stream by itself")
	return nil
}

// interpreter is a program that reads lines and answers them, over several calls.
type interpreter struct {
	name    string
	id      messages.ProcessID
	session *execbus.Session
	events  subscription
	seen    strings.Builder // all its output

	set, get, got, sleep, survived string // lines to type, and output to expect
	argv                           []string
}

// subscription is a subscription to the bus, as far as the tour needs it.
type subscription interface {
	Next(ctx context.Context) (messages.Event, error)
	Close()
}

func chooseInterpreter() *interpreter {
	if python, err := exec.LookPath("python3"); err == nil { // -I: it keeps no history of typed lines
		return &interpreter{name: "python3", argv: []string{python, "-I", "-q", "-i"},
			set: "answer = 6 * 7", get: "print('the answer is', answer)", got: "the answer is 42",
			sleep: "import time; print('now', 'asleep'); time.sleep(1000)", survived: "KeyboardInterrupt"}
	}
	return &interpreter{name: "sh", argv: []string{"/bin/sh", "-i"},
		set: "answer=$((6 * 7))", get: `echo "the answer" "is $answer"`, got: "the answer is 42",
		sleep: `echo now "asleep"; sleep 1000`, survived: "^C"}
}

// answerTime bounds how long an interpreter may take for a line.
const answerTime = 15 * time.Second

// say types a line, and waits until the interpreter has said what is expected. It returns the call's own answer.
func (i *interpreter) say(ctx context.Context, input, want string) (*messages.Result, error) {
	from := i.seen.Len()
	result, err := i.session.Write(ctx, messages.WriteStdin{Process: i.id, Bytes: []byte(input)})
	if err != nil {
		return nil, err
	}
	return result, i.await(ctx, from, want)
}

// await reads events until the interpreter has said something.
func (i *interpreter) await(ctx context.Context, from int, want string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for !strings.Contains(i.seen.String()[from:], want) {
		event, err := i.events.Next(ctx)
		if err != nil {
			return fmt.Errorf("%s did not say %q but %q: %w", i.name, want, i.seen.String()[from:], err)
		}
		if output, ok := event.(messages.OutputDelta); ok {
			i.seen.Write(output.Bytes)
		}
	}
	return nil
}

func showSession(ctx context.Context, t *tour, s *scene) error {
	i := chooseInterpreter()
	i.session = t.session
	call := messages.CallID(t.call())
	events, err := t.session.Events(execbus.Watch{Calls: []messages.CallID{call}, Kinds: []messages.EventKind{messages.KindOutputDelta}})
	if err != nil {
		return err
	}
	i.events = events
	s.say("First call: start %s on a terminal, and wait 250 ms.", i.name)
	result, err := t.session.Exec(ctx, messages.ExecCommand{Call: call, Argv: i.argv, TTY: true, Yield: new(messages.MinYield),
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"PS1": "$ ", "PYTHONSTARTUP": "", "HISTFILE": "", "ENV": ""}}})
	if err != nil {
		return err
	}
	i.id = result.Process
	s.quote(tools.Text(result))
	s.fact("interpreter", i.name)
	s.fact("process", i.id)
	s.check(result.Running && result.Process != 0, "it keeps running, and the answer has its id: %d", result.Process)
	s.say("Second call: %s", i.set)
	if _, err := t.session.Write(ctx, messages.WriteStdin{Process: i.id, Bytes: []byte(i.set + "\n")}); err != nil {
		return err
	}
	s.say("Third call: %s", i.get)
	result, err = i.say(ctx, i.get+"\n", i.got)
	if err != nil {
		return err
	}
	s.quote(tools.Text(result))
	s.check(strings.Contains(i.seen.String(), i.got), "it remembers what the earlier call told it: %s", i.got)
	t.interpreter = i
	return nil
}

func showInterrupt(ctx context.Context, t *tour, s *scene) error {
	i := t.interpreter
	if i == nil {
		return errEarlier
	}
	defer i.events.Close()
	s.say("%s is told to sleep for 1000 s:", i.name)
	if _, err := i.say(ctx, i.sleep+"\n", "now asleep"); err != nil {
		return err
	}
	began := time.Now()
	s.say("Then Ctrl-C, the byte 0x03, is typed on its terminal.")
	result, err := i.say(ctx, "\x03", i.survived)
	if err != nil {
		return err
	}
	s.quote(string(result.Output))
	s.fact("milliseconds", time.Since(began).Milliseconds())
	_, err = i.say(ctx, i.get+"\n", i.got)
	s.check(err == nil, "the sleep is over after %v, and %s still remembers: %s", time.Since(began).Round(10*time.Millisecond), i.name, i.got)
	s.say("The last call: exit.")
	code := "exit 5\n"
	if i.name != "sh" {
		code = "exit(5)\n"
	}
	result, err = t.session.Write(ctx, messages.WriteStdin{Process: i.id, Bytes: []byte(code), Yield: new(answerTime)})
	if err != nil {
		return err
	}
	s.quote(tools.Text(result))
	s.check(!result.Running && result.Status == messages.StatusExited(5), "it has ended with its own code, 5")
	return nil
}
