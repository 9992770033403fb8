package execbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func TestARunIsConnectedWithStreams(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	input := noise(700_000) // more than a result keeps of a stream
	var stdout, stderr bytes.Buffer
	command := runs("tee >(wc -c >&2)")
	result, err := session.RunStreams(patient(t), command, execbus.Streams{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	if stdout.String() != input || strings.TrimSpace(stderr.String()) != "4788895" {
		t.Errorf("%d of %d bytes came back, and stderr is %q", stdout.Len(), len(input), stderr.String())
	}
	if len(result.Stdout) != messages.MaxRunOutput || result.Omitted != int64(len(input)-messages.MaxRunOutput) {
		t.Errorf("the result has %d bytes and omits %d", len(result.Stdout), result.Omitted)
	}
	stdout.Reset()
	result, err = session.RunStreams(patient(t), runs("cat; echo out; echo err >&2; exit 3"), execbus.Streams{Stdout: &stdout, Stderr: &stdout})
	if err != nil || result.ExitCode != 3 || len(stdout.String()) != len("out\nerr\n") {
		t.Errorf("%+v, %v: %q", result, err, stdout.String())
	}
	result, err = session.RunStreams(patient(t), messages.RunCommand{Argv: []string{"no-such-program"}}, execbus.Streams{Stdout: &stdout})
	if wantError(t, err, messages.ErrNoSuchProgram); result != nil {
		t.Errorf("%+v", result)
	}
	_, err = session.RunStreams(patient(t), messages.RunCommand{}, execbus.Streams{})
	wantError(t, err, messages.ErrInvalidRequest)
}

// gatedWriter takes nothing before it is opened.
type gatedWriter struct {
	bytes.Buffer
	open chan struct{}
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	<-w.open
	return w.Buffer.Write(p)
}

func TestACommandWaitsForAWriter(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	w := &gatedWriter{open: make(chan struct{})}
	done := make(chan error, 1)
	command := runs("seq 1000000")
	command.Call = "slow"
	exits := watch(t, session, execbus.Watch{Calls: []messages.CallID{"slow"}, Kinds: []messages.EventKind{messages.KindExecStarted, messages.KindExecExited}})
	go func() { done <- errorOf(session.RunStreams(patient(t), command, execbus.Streams{Stdout: w})) }()
	started := await[messages.ExecStarted](t, exits, nil)
	eventually(t, "it has filled what there is", func() bool {
		page, err := session.Read(patient(t), messages.ReadOutput{Process: started.Process, Tail: 1})
		return err == nil && page.Total > 0
	})
	if _, ok, _ := exits.TryNext(); ok {
		t.Error("it has exited, and nobody has read")
	}
	close(w.open)
	if err := <-done; err != nil || w.String() != noise(1_000_000) {
		t.Errorf("%d bytes, %v", w.Len(), err)
	}
}

// The writer is so slow that the result does not wait for the end of the tree. What has become of the tree is told all the same.
func TestASlowWriterLearnsOfTheTreesEnd(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	w := &gatedWriter{open: make(chan struct{})}
	command := runs("sleep 1000 & head -c 66000 /dev/zero")
	command.Call, command.Grace = "tree", new(time.Duration)
	exits := watch(t, session, execbus.Watch{Calls: []messages.CallID{"tree"}, Kinds: []messages.EventKind{messages.KindExecExited}})
	done := make(chan *messages.RunResult, 1)
	go func() {
		result, err := session.RunStreams(patient(t), command, execbus.Streams{Stdout: w})
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	await[messages.ExecExited](t, exits, nil)
	time.Sleep(messages.RunDrain + 100*time.Millisecond)
	close(w.open)
	if result := <-done; result == nil || result.Tree == nil || result.Tree.Ended != 1 || w.Len() != 66_000 {
		t.Errorf("%+v, %d bytes", result, w.Len())
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestAWriterThatFailsEndsItsCommand(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	broken := errors.New("the disk is full")
	command := runs("while :; do echo x; done")
	result, err := session.RunStreams(patient(t), command, execbus.Streams{Stdout: brokenWriter{broken}})
	if !errors.Is(err, broken) || result == nil || !result.Cancelled {
		t.Errorf("%+v, %v", result, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	defer writer.Close()
	go cancel()
	if result, err := session.RunStreams(ctx, runs("cat"), execbus.Streams{Stdin: reader}); result != nil && !result.Cancelled || result == nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", result, err)
	}
}

// hostile fails in another way than by an error.
type hostile func()

func (h hostile) Read([]byte) (int, error)  { h(); return 0, io.EOF }
func (h hostile) Write([]byte) (int, error) { h(); return 0, nil }

// A host's own reader or writer that panics, or ends its goroutine, is named in an error, and the host goes on.
func TestStreamsThatPanicAreErrors(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	for how, fail := range map[string]hostile{"panicked: on purpose": func() { panic("on purpose") }, "ended its goroutine": runtime.Goexit} {
		result, err := session.RunStreams(patient(t), runs("while :; do echo x; done"), execbus.Streams{Stdout: fail})
		if wantError(t, err, messages.ErrRuntimeFailure, "the writer "+how); result == nil || !result.Cancelled {
			t.Errorf("%+v", result)
		}
		result, err = session.RunStreams(patient(t), runs("cat; exit 7"), execbus.Streams{Stdin: fail})
		if wantError(t, err, messages.ErrRuntimeFailure, "the reader "+how); result == nil || result.ExitCode != 7 {
			t.Errorf("%+v", result)
		}
	}
}

func TestAFullRunHasTheTimeoutThatItAsksFor(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	command := runs("echo begun; sleep 1000")
	command.Full, command.Timeout = true, new(300*time.Millisecond)
	if result, err := session.Run(patient(t), command); err != nil || !result.TimedOut || result.ExitCode != messages.ExitCodeRunTimedOut {
		t.Errorf("%+v, %v", result, err)
	}
}

// A person's terminal sends its answers as input. A second answer would reach the program as typed text.
func TestATerminalOfAPersonIsNotAnsweredFor(t *testing.T) {
	session := newSession(t, execbus.SessionOptions{})
	for attended, want := range map[bool]string{true: "moin", false: "\x1b[1;"} {
		input, keys := io.Pipe()
		var screen watched
		screen.seen = func(all string) {
			if strings.HasSuffix(all, "ready") {
				go func() { _, _ = keys.Write([]byte("moin")); _ = keys.Close() }()
			}
		}
		result, err := session.RunStreams(patient(t), messages.RunCommand{TTY: true, Attended: attended,
			Argv: []string{"sh", "-c", `stty raw -echo; printf '\033[6nready'; dd bs=1 count=4 2>/dev/null | od -An -tx1 | tr -d ' \n'; echo .`},
		}, execbus.Streams{Stdin: input, Stdout: &screen})
		_ = input.Close()
		if err != nil || !strings.Contains(string(result.Stdout), fmt.Sprintf("ready%x.", want)) {
			t.Errorf("attended %v: %+v, %v", attended, result, err)
		}
	}
}

// watched is a writer that shows what it has got so far.
type watched struct {
	all  strings.Builder
	seen func(all string)
}

func (w *watched) Write(p []byte) (int, error) {
	w.all.Write(p)
	w.seen(w.all.String())
	return len(p), nil
}
