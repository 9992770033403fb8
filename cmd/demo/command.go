package main

import (
	"context"
	"errors"
	"io"
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
	id       messages.ProcessID
}

func newCommand(session *execbus.Session, argv []string) *command {
	return &command{session: session, argv: argv, terminal: openTerminal()}
}

// run runs the command and returns its exit code.
func (c *command) run() int {
	defer c.terminal.restore()
	events, err := c.session.Events(execbus.Watch{Calls: []messages.CallID{call}, Lossless: true})
	if err != nil {
		return fail(err)
	}
	defer events.Close()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	defer signal.Stop(signals)
	failed := make(chan error, 1)
	go func() {
		defer c.terminal.restoreOnPanic()
		request := messages.ExecCommand{Call: call, Argv: c.argv, TTY: c.terminal != nil, Size: c.terminal.size(),
			OpenStdin: true, NoWait: true}
		if _, err := c.session.Exec(context.Background(), request); err != nil {
			failed <- err
			events.Close()
		}
	}()
	for event, err := range events.All(context.Background()) {
		if err != nil {
			c.terminal.restore()
			select {
			case err = <-failed:
			default:
			}
			return fail(err)
		}
		switch e := event.(type) {
		case messages.ExecStarted:
			c.id = e.Process
			if err := c.terminal.raw(); err != nil {
				return fail(err)
			}
			go c.forwardInput()
			go c.forwardSignals(signals)
		case messages.OutputDelta:
			c.show(e)
		case messages.ExecEnded:
			c.terminal.restore()
			return c.exitCode(e, failed)
		}
	}
	return fail(errors.New("the events ended before the command"))
}

// exitCode is that of the leader, however the process ended.
func (c *command) exitCode(e messages.ExecEnded, failed <-chan error) int {
	if code, known := e.Status.Code(); known {
		return code
	}
	if e.Cause == messages.CauseSpawnFailed {
		return fail(<-failed)
	}
	return fail(errors.New("the command ended without a status: " + string(e.Cause) + " " + e.Detail))
}

func (c *command) show(e messages.OutputDelta) {
	out := os.Stdout
	if e.Stream == messages.Stderr {
		out = os.Stderr
	}
	_, _ = out.Write(e.Bytes) // a reader that went away ends us by SIGPIPE, and the warden ends the command
}

// forwardInput passes on what comes from our input until it ends or the command takes no more.
func (c *command) forwardInput() {
	defer c.terminal.restoreOnPanic()
	buffer := make([]byte, 4<<10)
	for {
		n, err := os.Stdin.Read(buffer)
		if n > 0 && !c.write(buffer[:n]) {
			return
		}
		if errors.Is(err, io.EOF) {
			_ = c.session.CloseStdin(context.Background(), c.id) // it may have ended meanwhile
		}
		if err != nil {
			return
		}
	}
}

// write waits until the command has taken the input: that is how a full pipe reaches our own input.
func (c *command) write(p []byte) bool {
	input := messages.WriteStdin{Process: c.id, Bytes: p, NoWait: true, Patience: 1000 * time.Hour}
	_, err := c.session.Write(context.Background(), input)
	return err == nil
}

// forwardSignals passes on what is meant for the command. SIGTERM and SIGHUP end it with everything it started.
func (c *command) forwardSignals(signals <-chan os.Signal) {
	defer c.terminal.restoreOnPanic()
	for received := range signals {
		switch received {
		case syscall.SIGWINCH:
			if c.terminal != nil {
				_ = c.session.Resize(context.Background(), c.id, c.terminal.size())
			}
		case syscall.SIGTERM, syscall.SIGHUP:
			go func() { _, _ = c.session.Terminate(context.Background(), messages.Terminate{Process: c.id}) }()
		default:
			_ = c.session.Signal(context.Background(), messages.Signal{Process: c.id, Number: int(received.(syscall.Signal))})
		}
	}
}
