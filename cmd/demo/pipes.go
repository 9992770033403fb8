package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// runOnPipes runs one command without a terminal and returns its exit code. Nobody can be asked about it.
func runOnPipes(argv []string, p *policies) int {
	rt, session, err := p.start(nil, messages.EnvironmentPolicy{})
	if err != nil {
		return fail(err)
	}
	code := runPiped(argv, session)
	if err := shutdown(rt); err != nil {
		return fail(err)
	}
	return code
}

func runPiped(argv []string, session *execbus.Session) int {
	const call = "demo"
	events, err := session.Events(execbus.Watch{Calls: []messages.CallID{call}, Lossless: true})
	if err != nil {
		return fail(err)
	}
	defer events.Close()
	ctx, interrupt := context.WithCancelCause(context.Background())
	defer interrupt(nil)
	signals, started := make(chan os.Signal, 16), make(chan *execbus.Process, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go passOn(signals, started, interrupt)
	process, err := session.Start(ctx, messages.ExecCommand{Call: call, Argv: argv, OpenStdin: true})
	started <- process
	if err != nil {
		for errors.Is(err, messages.ErrRejected) { // the events up to the end of the call say more
			event, lost := events.Next(context.Background())
			if _, over := event.(messages.ExecEnded); over || lost != nil {
				break
			}
			if decision, is := event.(messages.ToolDecision); is && decision.Source == messages.DecidedByAbsence {
				fmt.Fprintln(os.Stderr, "demo: Nobody can be asked, because input or output is not a terminal. Allow the command with --rules, "+
					"or choose another --approval.")
			}
		}
		code := fail(err)
		if received, interrupted := errors.AsType[interruption](context.Cause(ctx)); interrupted {
			code = 128 + int(received.Signal)
		}
		return code
	}
	go func() {
		_, _ = io.Copy(process, os.Stdin) // it may take less, and may have ended meanwhile
		_ = process.CloseStdin(context.Background())
	}()
	for event, err := range events.All(context.Background()) {
		if err != nil {
			return fail(err)
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			out := os.Stdout
			if e.Stream == messages.StreamStderr {
				out = os.Stderr
			}
			_, _ = out.Write(e.Bytes) // if nobody reads it any more, SIGPIPE ends this process, and the warden ends the command
		case messages.ExecEnded:
			if code, known := e.Status.Code(); known {
				return code
			}
			return fail(fmt.Errorf("the command ended without a status: %v", &e.EndRecord))
		}
	}
	return fail(errors.New("the events ended before the command"))
}

// passOn passes signals on to the command. SIGTERM and SIGHUP end it with everything it started. A signal that comes before the
// command has started ends the start, and goes to a command that has started nevertheless.
func passOn(signals <-chan os.Signal, started <-chan *execbus.Process, interrupt context.CancelCauseFunc) {
	received := (<-signals).(syscall.Signal)
	var process *execbus.Process
	select {
	case process = <-started:
	default:
		interrupt(interruption{received})
		process = <-started
	}
	for ; process != nil; received = (<-signals).(syscall.Signal) {
		switch received {
		case syscall.SIGTERM, syscall.SIGHUP:
			go func() { _, _ = process.Terminate(context.Background()) }()
		default:
			_ = process.Signal(context.Background(), received) // it is no failure if it has ended meanwhile
		}
	}
}
