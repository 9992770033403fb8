package execbus

import (
	"cmp"
	"context"
	"io"

	"github.com/google/uuid"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// Streams are the input and the outputs of a command for [Session.RunStreams]. A nil Stdin is an empty input. A nil Stdout
// or Stderr drops that output; the result still keeps its beginning. Both may be the same writer: one goroutine writes to
// them.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// RunStreams is [Session.Run] with an input and with all of the output, however much that is. The command waits for a slow
// writer, and its timeout goes on meanwhile. RunStreams returns when all output is written. A writer that fails ends the command, and
// its error is returned beside the result. The output of an attempt that its sandbox stopped is written, too.
//
// A goroutine reads Stdin, and RunStreams does not wait for it: a reader that never returns keeps it. If Stdin fails, the input ends.
func (s *Session) RunStreams(ctx context.Context, command messages.RunCommand, streams Streams) (*messages.RunResult, error) {
	if command.Call == "" {
		command.Call = messages.CallID("run-" + uuid.NewString())
	}
	command.OpenStdin = streams.Stdin != nil
	events, err := s.Events(Watch{Name: "run", Calls: []messages.CallID{command.Call}, Lossless: true,
		Kinds: []messages.EventKind{messages.KindExecStarted, messages.KindOutputDelta, messages.KindExecEnded}})
	if err != nil {
		return nil, err
	}
	defer events.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	written := make(chan error, 1)
	go func() { written <- s.carry(events, streams, cancel) }()
	result, err := s.Run(ctx, command)
	if result == nil { // the command has never run, and nothing is published
		events.Close()
		<-written
		return nil, err
	}
	return result, <-written
}

// carry connects a command with its streams until it has ended. After an error it cancels the command and goes on reading, because
// the command could not end otherwise.
func (s *Session) carry(events *bus.Subscription, streams Streams, cancel func()) (failed error) {
	var process messages.ProcessID
	for event, err := range events.All(context.Background()) {
		if err != nil {
			return cmp.Or(failed, err)
		}
		if process != 0 && event.From().Process != process { // another process, of a call with the same name
			continue
		}
		switch e := event.(type) {
		case messages.ExecStarted:
			process = e.Process
			if streams.Stdin != nil {
				go s.feed(process, streams.Stdin)
			}
		case messages.OutputDelta:
			to := streams.Stdout
			if e.Stream == messages.StreamStderr {
				to = streams.Stderr
			}
			if to == nil || failed != nil {
				continue
			}
			if _, failed = to.Write(e.Bytes); failed != nil {
				cancel()
			}
		case messages.ExecEnded:
			return failed
		}
	}
	return failed
}

// feed copies an input and ends it. It is no error if the process has ended and takes no more.
func (s *Session) feed(process messages.ProcessID, input io.Reader) {
	p := &Process{session: s, id: process}
	_, _ = io.Copy(p, input)
	_ = p.CloseStdin(context.Background())
}
