package execbus

import (
	"cmp"
	"context"
	"io"

	"github.com/google/uuid"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/internal/hostcode"
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
// its error is returned beside the result. The output of an attempt that its sandbox stopped is written, too, and the next attempt
// gets the same input, up to 1 MiB: a command that was given more has no other attempt (messages.Denial.NoRetry).
//
// A goroutine reads Stdin, and RunStreams does not wait for it: a reader that never returns keeps it. If Stdin fails, the input ends.
// A reader or writer that panics has failed; a reader's panic is returned as an error, too, if it came before the command's end.
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
	c := &carrier{session: s, events: events, streams: streams, cancel: cancel, written: make(chan error, 1), read: make(chan error, 1)}
	c.run()
	result, err := s.Run(ctx, command)
	if result == nil { // the command has never run, and nothing is published
		events.Close()
		<-c.written
		return nil, err
	}
	err = <-c.written
	if result.Tree == nil && c.tree != nil { // the writer took its time, and the result did not wait for the end of the tree
		later := *result
		later.Tree = c.tree
		result = &later
	}
	if err != nil {
		return result, err
	}
	select {
	case err := <-c.read:
		return result, err
	default:
		return result, nil
	}
}

// carrier connects a command with its streams.
type carrier struct {
	session *Session
	events  *bus.Subscription
	streams Streams
	cancel  func()
	process messages.ProcessID
	tree    *messages.TreeReport // set at the end
	failed  error
	written chan error // room for one: the command has ended
	read    chan error // room for one: the reader has failed so that it must be told
}

// run carries in another goroutine until the command has ended. After an error it cancels the command and goes on reading, because
// the command could not end otherwise.
func (c *carrier) run() {
	hostcode.Call[struct{}]{Who: "the writer", Do: func(context.Context) (none struct{}, _ error) {
		c.carry()
		return none, nil
	}}.Go(context.Background(), func(_ struct{}, err error) {
		if err == nil {
			c.written <- c.failed
			return
		}
		c.failed = broken("writer", err)
		c.cancel()
		c.run()
	})
}

func (c *carrier) carry() {
	for event, err := range c.events.All(context.Background()) {
		if err != nil {
			c.failed = cmp.Or(c.failed, err)
			return
		}
		if c.process != 0 && event.From().Process != c.process { // another process, of a call with the same name
			continue
		}
		switch e := event.(type) {
		case messages.ExecStarted:
			c.process = e.Process
			if c.streams.Stdin != nil {
				c.feed()
			}
		case messages.OutputDelta:
			c.write(e)
		case messages.ExecEnded:
			c.tree = &e.Tree
			return
		}
	}
}

func (c *carrier) write(e messages.OutputDelta) {
	to := c.streams.Stdout
	if e.Stream == messages.StreamStderr {
		to = c.streams.Stderr
	}
	if to == nil || c.failed != nil {
		return
	}
	if _, c.failed = to.Write(e.Bytes); c.failed != nil {
		c.cancel()
	}
}

// feed copies an input in another goroutine, and ends it. It is no error if the process has ended and takes no more.
func (c *carrier) feed() {
	p := &Process{session: c.session, id: c.process}
	hostcode.Call[int64]{Who: "the reader", Do: func(context.Context) (int64, error) {
		n, _ := io.Copy(p.Repeatable(), c.streams.Stdin)
		return n, nil
	}}.Go(context.Background(), func(_ int64, err error) {
		if err != nil {
			c.read <- broken("reader", err)
		}
		_ = p.CloseStdin(context.Background())
	})
}

// broken is the error of a host's reader or writer that has not returned.
func broken(what string, err error) error {
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "run", Subject: what, Detail: err.Error()}
}
