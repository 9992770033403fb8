package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// call names the one call of the demo.
const call messages.CallID = "demo"

// command is the one command the demo runs.
type command struct {
	session  *execbus.Session
	argv     []string
	terminal *terminal // nil on pipes
	asker    *asker    // nil on pipes
	id       messages.ProcessID
	started  chan struct{} // closed when id is known
	failed   chan error    // of size one: why there is no command
	screen   chan struct{} // of size one: held by output and by a question
}

func newCommand(argv []string) *command {
	return &command{argv: argv, terminal: openTerminal(), started: make(chan struct{}), failed: make(chan error, 1), screen: make(chan struct{}, 1)}
}

// run runs the command and returns its exit code.
func (c *command) run(session *execbus.Session) int {
	c.session = session
	if c.asker != nil {
		c.asker.session = session
	}
	defer c.terminal.restore()
	events, err := c.session.Events(execbus.Watch{Calls: []messages.CallID{call}, Lossless: true})
	if err != nil {
		return fail(err)
	}
	defer events.Close()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	defer signal.Stop(signals)
	ctx, interrupt := context.WithCancelCause(context.Background())
	defer interrupt(nil)
	go c.forwardSignals(signals, interrupt)
	go c.forwardInput()
	go func() {
		defer c.terminal.restoreOnPanic()
		request := messages.ExecCommand{Call: call, Argv: c.argv, TTY: c.terminal != nil, Size: c.terminal.size(),
			Attended: true, OpenStdin: true}
		if _, err := c.session.Start(ctx, request); err != nil {
			c.failed <- err
			if !errors.Is(err, messages.ErrRejected) { // the events of a rejected call say more
				events.Close()
			}
		}
	}()
	for event, err := range events.All(context.Background()) {
		if err != nil {
			c.terminal.restore()
			return c.notStarted(ctx, err)
		}
		if hint := absence(event); hint != "" {
			fmt.Fprintln(os.Stderr, "demo:", hint)
		}
		switch e := event.(type) {
		case messages.ExecStarted:
			c.id = e.Process
			if err := c.terminal.raw(); err != nil {
				return fail(err)
			}
			close(c.started)
		case messages.OutputDelta:
			c.show(e)
		case messages.ExecEnded:
			c.terminal.restore()
			return c.exitCode(ctx, e)
		}
	}
	return fail(errors.New("the events ended before the command"))
}

// notStarted returns the exit code of a command that never ran. The reason is err or the error of Exec.
func (c *command) notStarted(ctx context.Context, err error) int {
	select {
	case err = <-c.failed:
	default:
	}
	code := fail(err)
	if received, interrupted := errors.AsType[interruption](context.Cause(ctx)); interrupted {
		return 128 + int(received.Signal)
	}
	return code
}

// exitCode returns the leader's exit code, however the process ended.
func (c *command) exitCode(ctx context.Context, e messages.ExecEnded) int {
	if code, known := e.Status.Code(); known {
		return code
	}
	switch e.Cause {
	case messages.CauseSpawnFailed, messages.CauseRejected, messages.CauseAborted:
		return c.notStarted(ctx, <-c.failed)
	}
	return fail(errors.New("the command ended without a status: " + string(e.Cause) + " " + e.Detail))
}

func (c *command) show(e messages.OutputDelta) {
	out := os.Stdout
	if e.Stream == messages.StreamStderr {
		out = os.Stderr
	}
	c.screen <- struct{}{}
	defer func() { <-c.screen }()
	_, _ = out.Write(e.Bytes) // if nobody reads it any more, SIGPIPE ends this process, and the warden ends the command
}

// forwardInput passes our input on to the command until the input ends or the command takes no more. Questions are asked on
// the same terminal.
func (c *command) forwardInput() {
	defer c.terminal.restoreOnPanic()
	var asks chan *asked
	if c.asker != nil {
		asks = c.asker.asks
	}
	started := c.started
	var all, forwarded <-chan []byte // typed input; it is read only on demand
	for {
		select {
		case question := <-asks:
			if all == nil {
				all = typed()
			}
			c.ask(question, all)
		case <-started:
			if all == nil {
				all = typed()
			}
			started, forwarded = nil, all
		case chunk, open := <-forwarded:
			if !open {
				_ = c.session.CloseStdin(context.Background(), messages.CloseStdin{Process: c.id}) // it may have ended meanwhile
			}
			if !open || !c.write(chunk) {
				forwarded = nil
			}
		}
	}
}

// ask puts one question on the terminal, and waits until it is over. Input typed meanwhile does not go to the command.
func (c *command) ask(question *asked, input <-chan []byte) {
	if err := c.terminal.cbreak(); err != nil {
		fail(err)
		return
	}
	c.screen <- struct{}{}
	question.put(c.terminal, input, os.Stdout)
	<-c.screen
	if c.running() {
		_ = c.terminal.raw()
	}
}

// running reports whether the command has started.
func (c *command) running() bool {
	select {
	case <-c.started:
		return true
	default:
		return false
	}
}

// write waits until the command has taken the input, so a full pipe to the command also stops the reading of our own input.
func (c *command) write(p []byte) bool {
	input := messages.WriteStdin{Process: c.id, Bytes: p, UntilTaken: true, Patience: new(1000 * time.Hour)}
	_, err := c.session.Write(context.Background(), input)
	return err == nil
}

// forwardSignals passes signals on to the command. SIGTERM and SIGHUP end it with everything it started. A signal that arrives
// before the command runs is for the demo, which may be asking a question.
func (c *command) forwardSignals(signals <-chan os.Signal, interrupt context.CancelCauseFunc) {
	defer c.terminal.restoreOnPanic()
	for received := range signals {
		if c.running() {
			c.forwardSignal(received)
		} else if received != syscall.SIGWINCH {
			interrupt(interruption{received.(syscall.Signal)})
		}
	}
}

func (c *command) forwardSignal(received os.Signal) {
	switch received {
	case syscall.SIGWINCH:
		if c.terminal != nil {
			_ = c.session.Resize(context.Background(), messages.Resize{Process: c.id, Size: c.terminal.size()})
		}
	case syscall.SIGTERM, syscall.SIGHUP:
		go func() { _, _ = c.session.Terminate(context.Background(), messages.Terminate{Process: c.id}) }()
	default:
		_ = c.session.Signal(context.Background(), messages.Signal{Process: c.id, Signal: received.(syscall.Signal)})
	}
}
