//go:build linux

package execbus_test

import (
	"context"
	"errors"
	"fmt"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// forever is a yield that no test waits for.
const forever = 4 * time.Minute

func interactive(until *messages.Until) messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"sh", "-i"}, TTY: true, Yield: new(forever), Until: until,
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"PS1": "ready> ", "ENV": ""}}}
}

// untilInput is an Until for input of any kind.
func untilInput() *messages.Until { return &messages.Until{AwaitingInput: true} }

func enter(t *testing.T, s *execbus.Session, id messages.ProcessID, text string, until *messages.Until) *messages.Result {
	t.Helper()
	result, err := s.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte(text), Yield: new(forever), Until: until})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestACallEndsWhenTheProgramWaitsForInput(t *testing.T) {
	session := openSession(t, onWarden(), execbus.SessionOptions{})
	result, err := session.Exec(patient(t), interactive(untilInput()))
	if err != nil {
		t.Fatal(err)
	}
	if result.Met == nil || result.Met.Reason != messages.MetAwaitingInput || !strings.HasSuffix(string(result.Output), "ready> ") || result.Met.Offset != int64(len(result.Output)) {
		t.Fatalf("%q, %+v", result.Output, result.Met)
	}
	id := result.Process
	for _, c := range []struct {
		text, shows string
		kind        messages.InputKind
	}{
		{"echo 1''2; read x\n", "12\r\n", messages.InputLine},
		{"y\n", "ready> ", ""},
		{"stty -echo; read x\n", "", messages.InputSecret},
		{"y\n", "ready> ", ""},
		{"stty echo; sleep 0.2; echo 3''4\n", "34\r\nready> ", ""},
	} {
		result := enter(t, session, id, c.text, untilInput())
		if m := result.Met; m == nil || m.Reason != messages.MetAwaitingInput || m.Input == nil || c.kind != "" && m.Input.Kind != c.kind || !strings.Contains(string(result.Output), c.shows) {
			t.Fatalf("%q: %q, %+v", c.text, result.Output, m)
		}
	}
	poll, err := session.Poll(patient(t), messages.Poll{Process: id, Yield: new(forever), Until: untilInput()})
	if err != nil || poll.Met == nil || poll.Met.Reason != messages.MetAwaitingInput { // it waits already
		t.Errorf("%+v, %v", poll, err)
	}
	if result := enter(t, session, id, "exit 3\n", untilInput()); result.Met == nil || result.Met.Reason != messages.MetExit || result.Status != messages.StatusExited(3) {
		t.Errorf("%+v, %+v", result, result.Met)
	}
}

func TestACallEndsWithAPattern(t *testing.T) {
	session := openSession(t, onWarden(), execbus.SessionOptions{})
	until := &messages.Until{Pattern: `listening on (\d+)$`}
	result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"sh", "-c", `printf 'starting\nlisten'; sleep 0.1; printf '\033[1ming on 8080'; cat`}, OpenStdin: true, Yield: new(forever), Until: until})
	if err != nil || result.Met == nil || result.Met.Reason != messages.MetPattern || result.Met.Offset != int64(len(result.Output)) || !result.Running {
		t.Fatalf("%+v, %v", result, err)
	}
	result = enter(t, session, result.Process, "one\ntwo\nthree", &messages.Until{Pattern: `two\b`})
	if result.Met.Reason != messages.MetPattern || !strings.Contains(string(result.Output), "two") {
		t.Errorf("%q, %+v", result.Output, result.Met)
	}
	again, err := session.Poll(patient(t), messages.Poll{Process: result.Process, Yield: new(forever), Until: &messages.Until{Pattern: `start`, From: new(int64)}})
	if err != nil || again.Met.Reason != messages.MetPattern || again.Met.Offset != 5 {
		t.Errorf("%+v, %v", again, err)
	}
	none, err := session.Poll(patient(t), messages.Poll{Process: result.Process, Yield: new(time.Millisecond), Until: &messages.Until{Pattern: `start`}})
	if err != nil || none.Met.Reason != messages.MetNothing {
		t.Errorf("what was taken before: %+v, %v", none, err)
	}
}

// A shell shows what is typed, and the pattern is for what comes of it.
func TestTheEchoOfInputIsNoMatch(t *testing.T) {
	session := openSession(t, onWarden(), execbus.SessionOptions{})
	result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"sh", "-c", `echo begun; read x; sleep 0.2; echo "$x"; cat`}, TTY: true, Yield: new(forever), Until: &messages.Until{Pattern: "begun"}})
	if err != nil {
		t.Fatal(err)
	}
	if result = enter(t, session, result.Process, "done\n", &messages.Until{Pattern: "done"}); !strings.Contains(string(result.Output), "done\r\ndone") {
		t.Errorf("%q, %+v", result.Output, result.Met)
	}
}

func TestACallEndsWhenNoMoreOutputComes(t *testing.T) {
	t.Parallel() // it waits most of the time
	session := openSession(t, onWarden(), execbus.SessionOptions{})
	for name, until := range map[string]*messages.Until{
		"quiet":        {Quiet: 300 * time.Millisecond},
		"after output": {QuietAfterOutput: 300 * time.Millisecond},
		"both":         {Quiet: forever, QuietAfterOutput: 300 * time.Millisecond},
	} {
		script := "sleep 0.5; echo begun; cat"
		if name == "quiet" {
			script = "cat"
		}
		result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"sh", "-c", script}, OpenStdin: true, Yield: new(forever), Until: until})
		if err != nil || result.Met == nil || result.Met.Reason != messages.MetQuiet || name != "quiet" && string(result.Output) != "begun\n" {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"cat"}, OpenStdin: true, Yield: new(time.Millisecond), Until: &messages.Until{QuietAfterOutput: time.Millisecond}})
	if err != nil || result.Met.Reason != messages.MetNothing {
		t.Errorf("without output: %+v, %v", result, err)
	}
}

func TestACallEndsWhenAProgramListens(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	const server = `import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True)
sys.stdin.readline(); s.listen(); time.sleep(1000)`
	session := openSession(t, onWarden(), execbus.SessionOptions{})
	result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"python3", "-c", server}, OpenStdin: true, Yield: new(forever), Until: &messages.Until{Pattern: `\d\n`}})
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(result.Output)), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(number)
	none, err := session.Poll(patient(t), messages.Poll{Process: result.Process, Yield: new(time.Millisecond), Until: &messages.Until{Listening: new(uint16)}})
	if err != nil || none.Met.Reason != messages.MetNothing {
		t.Errorf("before it listens: %+v, %v", none, err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if got := enter(t, session, result.Process, "go\n", &messages.Until{Listening: &port}).Met; got.Reason != messages.MetListening || got.Address != address {
		t.Errorf("%+v", got)
	}
	other := port - 1
	if other, err := session.Poll(patient(t), messages.Poll{Process: result.Process, Yield: new(time.Millisecond), Until: &messages.Until{Listening: &other}}); err != nil || other.Met.Reason != messages.MetNothing {
		t.Errorf("another port: %+v, %v", other, err)
	}
	if any, err := session.Poll(patient(t), messages.Poll{Process: result.Process, Yield: new(forever), Until: &messages.Until{Listening: new(uint16)}}); err != nil || any.Met.Address != address {
		t.Errorf("any port: %+v, %v", any, err)
	}
}

func TestAnUntilThatCannotBeMetIsRefused(t *testing.T) {
	session := openSession(t, onWarden(), execbus.SessionOptions{})
	for _, until := range []messages.Until{
		{Pattern: "("}, {Pattern: "a*"}, {Pattern: strings.Repeat("x", messages.MaxPattern+1)}, {Pattern: "(x{1000}){1000}"}, {Pattern: "(ab?){900}"},
		{From: new(int64)}, {Pattern: "a", From: new(int64(-1))}, {Quiet: -1}, {QuietAfterOutput: -1}, {Guesses: true}, {Early: true, Pattern: "a"},
	} {
		for name, err := range map[string]error{
			"exec":  second(session.Exec(patient(t), messages.ExecCommand{Argv: []string{"true"}, Until: &until})),
			"write": second(session.Write(patient(t), messages.WriteStdin{Process: 1000, Bytes: []byte("x"), Until: &until})),
			"poll":  second(session.Poll(patient(t), messages.Poll{Process: 1000, Until: &until})),
		} {
			if !errors.Is(err, messages.ErrInvalidRequest) {
				t.Errorf("%s, %+v: %v", name, until, err)
			}
		}
	}
	err := second(session.Write(patient(t), messages.WriteStdin{Process: 1000, Bytes: []byte("x"), UntilTaken: true, Until: untilInput()}))
	if !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// unseen is a spawner whose children do not say what they wait for.
type unseen struct{ ptyio.Spawner }

type mute struct{ ptyio.Child }

func (u unseen) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	events := launch.Events
	launch.Events = func(event ptyio.Event) {
		if e, born := event.(ptyio.Spawned); born {
			e.Child = mute{e.Child}
			event = e
		}
		events(event)
	}
	child, err := u.Spawner.Spawn(ctx, launch)
	return mute{child}, err
}

func TestWhereNobodyCanLookTheSessionIsToldOnce(t *testing.T) {
	session := openSession(t, newRuntime(t, execbus.Options{Spawner: unseen{newSpawner(t, true)}}), execbus.SessionOptions{})
	events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecNotice}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	for range 2 {
		result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"cat"}, TTY: true, Yield: new(time.Millisecond), Until: untilInput()})
		if err != nil || result.Met == nil || result.Met.Reason != messages.MetNothing {
			t.Errorf("%+v, %v", result, err)
		}
	}
	event, err := events.Next(patient(t))
	if notice, is := event.(messages.ExecNotice); err != nil || !is || !strings.Contains(notice.Text, "yield") {
		t.Errorf("%+v, %v", event, err)
	}
	if another, ok, err := events.TryNext(); ok || err != nil {
		t.Errorf("%+v, %v", another, err)
	}
}

// staring is a spawner whose children answer as the test says.
type staring struct {
	ptyio.Spawner
	looks chan chan messages.InputKind // each look sends where it takes its answer from
}

type answering struct {
	ptyio.Child
	looks chan chan messages.InputKind
}

func (answering) Prompt() {}

func (a answering) Listeners() ([]ptyio.Listener, error) { return nil, nil }

func (a answering) AwaitedInput() (*messages.AwaitedInput, error) {
	answer := make(chan messages.InputKind)
	a.looks <- answer
	if kind := <-answer; kind != "" {
		return &messages.AwaitedInput{Kind: kind}, nil
	}
	return nil, nil
}

func (a staring) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	events := launch.Events
	launch.Events = func(event ptyio.Event) {
		if e, born := event.(ptyio.Spawned); born {
			e.Child = answering{e.Child, a.looks}
			event = e
		}
		events(event)
	}
	child, err := a.Spawner.Spawn(ctx, launch)
	return answering{child, a.looks}, err
}

// What was seen before input was sent says nothing of what the program does with it.
func TestALookThatBeganBeforeAWriteDoesNotEndIt(t *testing.T) {
	looks := make(chan chan messages.InputKind)
	session := openSession(t, newRuntime(t, execbus.Options{Spawner: staring{newSpawner(t, true), looks}}), execbus.SessionOptions{})
	started, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"cat"}, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	polled, wrote := make(chan *messages.Result, 1), make(chan *messages.Result, 1)
	go func() {
		result, _ := started.Poll(patient(t), messages.Poll{Yield: new(forever), Until: untilInput()})
		polled <- result
	}()
	stale := <-looks
	go func() {
		result, _ := session.Write(patient(t), messages.WriteStdin{Process: started.ID(), Bytes: []byte("x\n"), Yield: new(forever), Until: untilInput()})
		wrote <- result
	}()
	if result := <-polled; result == nil || result.Met == nil || result.Met.Reason != messages.MetNothing { // a write ends it
		t.Fatalf("%+v", result)
	}
	stale <- messages.InputLine
	for _, kind := range []messages.InputKind{"", messages.InputKeys} {
		select {
		case next := <-looks:
			next <- kind
		case result := <-wrote:
			t.Fatalf("%+v", result)
		}
	}
	if result := <-wrote; result == nil || result.Met == nil || result.Met.Input == nil || result.Met.Input.Kind != messages.InputKeys {
		t.Errorf("%+v", result)
	}
}

// A line is asked for, and then a key.
func TestACallOnATerminalEndsEarlyWhereTheSessionWantsIt(t *testing.T) {
	session := openSession(t, onWarden(), execbus.SessionOptions{AnswerEarly: true, LongestPoll: forever})
	result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"sh", "-c", "printf 'name? '; read x; stty raw -echo; printf 'key? '; head -c 1; sleep 100"}, TTY: true, Yield: new(forever)})
	if err != nil || result.Met == nil || result.Met.Input == nil || result.Met.Input.Kind != messages.InputLine || string(result.Output) != "name? " {
		t.Fatalf("%+v, %v", result, err)
	}
	result, err = session.Write(patient(t), messages.WriteStdin{Process: result.Process, Bytes: []byte("x\n"), Yield: new(forever)})
	if err != nil || result.Met == nil || result.Met.Input == nil || result.Met.Input.Kind != messages.InputKeys || string(result.Output) != "x\r\nkey? " {
		t.Errorf("%+v, %v", result, err)
	}
}
