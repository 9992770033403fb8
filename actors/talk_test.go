package actors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// talk is a session with a probe that gets its events.
type talk struct {
	*host
	supervisor *system.PID
	id         messages.SessionID
	events     *probe.Probe
}

// open opens a session; change may be nil.
func (h *host) open(change func(*shared.SessionConfig)) *talk {
	h.t.Helper()
	config := shared.SessionConfig{Session: messages.SessionID(fmt.Sprint("s", time.Now().UnixNano())), Dir: h.dir, Base: os.Environ(),
		LongestPoll: messages.DefaultMaxPoll, OutputTokens: messages.DefaultOutputTokens, MaxProcesses: 64, WarnProcesses: 60,
		Protected: 8, DeterministicIDs: true, Sandbox: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}}
	if change != nil {
		change(&config)
	}
	s := &talk{host: h, id: config.Session, events: probe.New(h.t)}
	follow(h.t, h.bus, s.id, s.events.Receive)
	s.supervisor = must[*system.PID](h, h.runtime, OpenSession{config})
	return s
}

// waiting is a call under way.
type waiting struct {
	*talk
	*system.Call
}

// call sends a request and returns at once. Requests of one goroutine arrive in order.
func (s *talk) call(message any) waiting {
	c := waiting{s, s.system.Call(s.supervisor, message)}
	s.t.Cleanup(c.Close)
	return c
}

// reply is the answer, which must come.
func (w waiting) reply() (any, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := w.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		w.t.Fatal("the call was not answered")
	}
	return reply, err
}

func (w waiting) result() *messages.Result {
	w.t.Helper()
	reply, err := w.reply()
	if err != nil {
		w.t.Fatal(err)
	}
	return reply.(*messages.Result)
}

// answered reports whether the answer is here within d.
func (w waiting) answered(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_, err := w.Wait(ctx)
	return !errors.Is(err, context.DeadlineExceeded)
}

func (w waiting) cancel() { w.system.Send(w.supervisor, protocol.CancelWait{Waiter: w.PID().Id}) }

func (s *talk) exec(command any) *messages.Result {
	s.t.Helper()
	return must[*messages.Result](s.host, s.supervisor, command)
}

func (s *talk) write(id messages.ProcessID, text string) *messages.Result {
	s.t.Helper()
	return must[*messages.Result](s.host, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte(text)})
}

// writeUntil is a write whose answer has some output, or the end.
func (s *talk) writeUntil(id messages.ProcessID, text, output string) *messages.Result {
	s.t.Helper()
	return s.until(s.write(id, text), output)
}

// until adds to an answer what polls bring until it has some output, or the end: a busy machine may need longer than a call waits.
func (s *talk) until(got *messages.Result, output string) *messages.Result {
	s.t.Helper()
	for late := time.Now().Add(patience); got.Running && !strings.Contains(string(got.Output), output) && time.Now().Before(late); {
		more := must[*messages.Result](s.host, s.supervisor, messages.Poll{Process: got.Process})
		more.Output, more.Taken, more.InputErr = append(got.Output, more.Output...), got.Taken, got.InputErr
		got = more
	}
	return got
}

// typed sends input and does not wait for output.
func (s *talk) typed(id messages.ProcessID, text string) {
	s.t.Helper()
	must[*messages.Result](s.host, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte(text), UntilTaken: true})
}

func (s *talk) list() messages.Processes {
	s.t.Helper()
	return must[messages.Processes](s.host, s.supervisor, protocol.ListProcesses{})
}

func (s *talk) terminate(id messages.ProcessID) (*messages.EndRecord, error) {
	return ask[*messages.EndRecord](s.host, s.supervisor, messages.Terminate{Process: id})
}

// said waits until a process's output contains text.
func (s *talk) said(id messages.ProcessID, text string) {
	s.t.Helper()
	if !strings.Contains(s.events.Output(id), text) {
		probe.Expect(s.events, patience, func(messages.OutputDelta) bool { return strings.Contains(s.events.Output(id), text) })
	}
}

func (s *talk) ended(id messages.ProcessID) messages.ExecEnded {
	s.t.Helper()
	return probe.Expect(s.events, patience, func(e messages.ExecEnded) bool { return e.Process == id })
}

// endsOf is every end of a process that was published.
func (s *talk) endsOf(id messages.ProcessID) []messages.ExecEnded {
	return probe.Of(s.events, func(e messages.ExecEnded) bool { return e.Process == id })
}

// quick is a command whose call answers as soon as the program runs.
func quick(script string) protocol.StartCommand {
	return protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"bash", "-c", script}}}
}

// shell is a command whose call waits for its end.
func shell(script string) messages.ExecCommand {
	return messages.ExecCommand{Argv: []string{"bash", "-c", script}, Yield: new(messages.MaxYield)}
}

// onTerminal puts a command on a terminal.
func onTerminal[C messages.ExecCommand | protocol.StartCommand](command C) C {
	switch c := any(&command).(type) {
	case *messages.ExecCommand:
		c.TTY = true
	case *protocol.StartCommand:
		c.TTY = true
	}
	return command
}

// interactive is a shell that reads commands from a terminal and says nothing by itself. Such a shell ignores SIGTERM.
func interactive() protocol.StartCommand {
	return protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"bash", "--norc", "--noprofile", "-i"}, TTY: true, Grace: new(50 * time.Millisecond),
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"PS1": "", "HISTFILE": "/dev/null"}}}}
}

// idle lives until it is ended.
const idle = "exec sleep 1000"
