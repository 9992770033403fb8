package client

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestAnswersFindTheirCalls(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	type answer struct {
		is  bool
		err error
	}
	came := map[string]chan answer{}
	for _, path := range []string{"/a", "/b", "/c"} {
		came[path] = make(chan answer, 1)
		go func() {
			is, err := s.Resolver().IsDir(context.Background(), path)
			came[path] <- answer{is, err}
		}()
	}
	asked := map[string]wire.Message{}
	for range came {
		m := p.expect(wire.EnvironmentPath)
		var params wire.PathParams
		_ = json.Unmarshal(m.Params, &params)
		asked[params.Path] = m
	}
	p.answer(asked["/c"], wire.PathResult{IsDirectory: true})
	if a := within(t, "c", came["/c"]); !a.is || a.err != nil {
		t.Errorf("%+v", a)
	}
	p.answer(asked["/a"], wire.PathResult{IsFile: true})
	p.fail(asked["/b"], wire.Internal, "the disk\nis gone")
	if a := within(t, "a", came["/a"]); a.is || a.err != nil {
		t.Errorf("%+v", a)
	}
	if a := within(t, "b", came["/b"]); !errors.Is(a.err, messages.ErrRuntimeFailure) || !strings.Contains(a.err.Error(), "the disk is gone") {
		t.Errorf("%+v", a)
	}
}

func TestACallThatIsWithdrawnLeavesNothingBehind(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	ctx, cancel := context.WithCancel(context.Background())
	came := make(chan error, 1)
	go func() {
		_, err := s.Resolver().IsFile(ctx, "/x")
		came <- err
	}()
	m := p.expect(wire.EnvironmentPath)
	cancel()
	if err := within(t, "the call", came); !errors.Is(err, messages.ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.wait(s, 0)
	p.answer(m, wire.PathResult{}) // late, but no violation
	p.round(s)
	p.answer(m, wire.PathResult{}) // twice, which is a violation
	within(t, "the end of the link", s.link.done)
}

func TestCallsAreBoundedAndCleaningHasItsOwnPlaces(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{TTY: true})
	go func() { // nothing is answered
		for {
			if _, err := p.Read(context.Background()); err != nil {
				return
			}
		}
	}()
	for range maxCalls {
		if err := s.link.start(&call{done: func([]byte, error) {}}, wire.EnvironmentStatus, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Resolver().IsDir(context.Background(), "/"); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("one call too many: %v", err)
	}
	if err := s.link.start(&call{cleaning: true, done: func([]byte, error) {}}, wire.ProcessTerminate, nil); err != nil {
		t.Errorf("there is no place to clean up: %v", err)
	}
	l.EndTree(0)
	p.wait(s, maxCalls+2)
}

func TestTheEndOfTheInputCanBeTriedAgainWhenThereWasNoPlaceForIt(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{OpenStdin: true})
	came := make(chan error, 1)
	end := func() { l.CloseStdin(func(err error) { came <- err }) }
	other := func() *call { return &call{done: func([]byte, error) {}} }
	one := other()
	for c := one; ; c = other() {
		if err := s.link.start(c, wire.EnvironmentStatus, nil); errors.Is(err, errCrowded) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	end()
	if err := within(t, "an end without a place", came); !errors.Is(err, messages.ErrInputFull) {
		t.Error(err)
	}
	s.link.giveUp(one)
	end()
	m := p.receive()
	for m.Method == wire.EnvironmentStatus {
		m = p.receive()
	}
	p.answer(m, wire.WriteResult{Status: wire.WriteAccepted})
	if err := within(t, "the end", came); err != nil {
		t.Error(err)
	}
}

func TestAServerThatOwesTooManyAnswersIsLeft(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	for range maxGiven + 1 {
		c := &call{again: true, done: func([]byte, error) {}}
		if err := s.link.start(c, wire.EnvironmentStatus, nil); err != nil {
			t.Fatal(err)
		}
		p.expect(wire.EnvironmentStatus)
		s.link.giveUp(c)
	}
	p.resumed()
}

func TestWrites(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{OpenStdin: true})
	answers := []struct {
		result any
		taken  int
		err    error
	}{
		{wire.WriteResult{Status: wire.WriteAccepted}, 4, nil},
		{wire.WriteResult{Status: wire.WriteAccepted, Taken: new(4)}, 4, nil},
		{wire.WriteResult{Status: wire.WriteAccepted, Taken: new(3)}, 3, messages.ErrInputNotTaken},
		{wire.WriteResult{Status: wire.WriteAccepted, Taken: new(-3)}, 0, messages.ErrInputNotTaken},
		{wire.WriteResult{Status: wire.WriteAccepted, Taken: new(7)}, 4, nil},
		{wire.WriteResult{Status: wire.WriteAccepted, Taken: new(1), Error: &messages.Error{Code: messages.ErrLineTooLong}}, 1, messages.ErrLineTooLong},
		{wire.WriteResult{Status: wire.WriteStdinClosed}, 0, messages.ErrStdinClosed},
		{wire.WriteResult{Status: wire.WriteUnknownProcess}, 0, messages.ErrClosed},
		{wire.WriteResult{Status: wire.WriteStarting}, 0, messages.ErrWrongState},
		{wire.WriteResult{Status: "other"}, 0, messages.ErrRuntimeFailure},
		{7, 0, messages.ErrRuntimeFailure},
	}
	ids := map[string]bool{}
	for _, a := range answers {
		came := l.write("text", time.Now().Add(patience))
		m := p.expect(wire.ProcessWrite)
		params := writeOf(t, m)
		ids[*params.WriteID] = true
		if string(params.Chunk) != "text" || !params.UntilTaken || params.PatienceMs == nil || *params.PatienceMs < 1000 {
			t.Errorf("%s", m.Params)
		}
		p.answer(m, a.result)
		if r := within(t, "the write", came); r.taken != a.taken || !errors.Is(r.err, a.err) || (r.err == nil) != (a.err == nil) {
			t.Errorf("%+v came to %+v", a.result, r)
		}
	}
	if len(ids) != len(answers) {
		t.Errorf("%d ids for %d writes", len(ids), len(answers))
	}
	big := strings.Repeat("x", ptyio.MaxPendingInput)
	one := l.write(big, time.Time{})
	if r := within(t, "a write above the bound", l.write("x", time.Time{})); r.taken != 0 || !errors.Is(r.err, messages.ErrInputFull) {
		t.Errorf("%+v", r)
	}
	p.answer(p.expect(wire.ProcessWrite), wire.WriteResult{Status: wire.WriteAccepted})
	if r := within(t, "the big write", one); r.taken != len(big) || r.err != nil {
		t.Errorf("%+v", r)
	}
	last := l.write("last", time.Time{})
	p.expect(wire.ProcessWrite)
	p.finish(l, 1)
	l.ended(t)
	if r := within(t, "the last write", last); !errors.Is(r.err, messages.ErrClosed) {
		t.Errorf("%+v", r)
	}
	if r := within(t, "a write after the end", l.write("x", time.Time{})); !errors.Is(r.err, messages.ErrClosed) {
		t.Errorf("%+v", r)
	}
}

func TestAWriteThatIsNotAnsweredIsGivenUp(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{TTY: true})
	came := l.write("text", time.Now())
	m := p.expect(wire.ProcessWrite)
	if r := within(t, "the write", came); !errors.Is(r.err, messages.ErrInputNotTaken) {
		t.Errorf("%+v", r)
	}
	p.answer(m, wire.WriteResult{Status: wire.WriteAccepted})
	p.round(s)
	if len(came) > 0 {
		t.Error("it was answered twice")
	}
}

func TestTheEndOfTheInput(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	pipes, terminal, none := p.start(s, ptyio.Launch{OpenStdin: true}), p.start(s, ptyio.Launch{TTY: true}), p.start(s, ptyio.Launch{})
	end := func(l *log) <-chan error {
		came := make(chan error, 2)
		l.CloseStdin(func(err error) { came <- err })
		return came
	}
	if err := within(t, "an end without input", end(none)); !errors.Is(err, messages.ErrStdinClosed) {
		t.Error(err)
	}
	came := end(pipes)
	p.expect(wire.ProcessCloseStdin)
	if r := within(t, "a write behind the end", pipes.write("x", time.Time{})); !errors.Is(r.err, messages.ErrStdinClosed) {
		t.Errorf("%+v", r)
	}
	_ = p.Close()
	p.resumed()
	p.answer(p.expect(wire.ProcessCloseStdin), wire.WriteResult{Status: wire.WriteStdinClosed}) // by the first
	if err := within(t, "the end", came); err != nil {
		t.Error(err)
	}
	for range 2 {
		came = end(terminal)
		p.answer(p.expect(wire.ProcessCloseStdin), wire.WriteResult{Status: wire.WriteAccepted})
		if err := within(t, "the end", came); err != nil {
			t.Error(err)
		}
	}
}

func TestControls(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	terminal, pipes := p.start(s, ptyio.Launch{TTY: true}), p.start(s, ptyio.Launch{})
	if err := pipes.Resize(messages.Size{}); !errors.Is(err, messages.ErrNotATerminal) {
		t.Error(err)
	}
	for _, sig := range []syscall.Signal{0, -1, 65} {
		if err := pipes.Signal(sig, ptyio.Tree); !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%d: %v", sig, err)
		}
	}
	came := make(chan error, 1)
	go func() { came <- terminal.Signal(40, ptyio.Foreground) }()
	m := p.expect(wire.ProcessSignal)
	if !strings.Contains(string(m.Params), `"SIG40"`) {
		t.Errorf("%s", m.Params)
	}
	text, _ := json.Marshal(&messages.Error{Code: messages.ErrClosed, Op: "signal", Detail: "it has ended"})
	p.say(string(wire.AppendFailure(nil, m.ID, &wire.Fault{Code: wire.Internal, Message: "x", Data: text})))
	if err := within(t, "the signal", came); !errors.Is(err, messages.ErrClosed) {
		t.Error(err)
	}
	terminal.EndTree(1500 * time.Microsecond)
	if m := p.expect(wire.ProcessTerminate); !strings.Contains(string(m.Params), `"graceMs":2`) {
		t.Errorf("%s", m.Params)
	}
}

func TestAServerWithoutExtensionsIsAskedForNothingItDoesNotKnow(t *testing.T) {
	p := newPeer(t)
	s := p.connect()
	l := p.start(s, ptyio.Launch{TTY: true})
	came := make(chan error, 1)
	go func() { came <- l.Signal(syscall.SIGINT, ptyio.Foreground) }()
	m := p.expect(wire.ProcessSignal)
	if !strings.Contains(string(m.Params), `"interrupt"`) {
		t.Errorf("%s", m.Params)
	}
	p.answer(m, wire.Empty{})
	if err := within(t, "the interrupt", came); err != nil {
		t.Error(err)
	}
	ended := make(chan error, 1)
	l.CloseStdin(func(err error) { ended <- err })
	for what, err := range map[string]error{"SIGTERM": l.Signal(syscall.SIGTERM, ptyio.Foreground), "a whole tree": l.Signal(syscall.SIGINT, ptyio.Tree),
		"the end of the input": within(t, "it", ended)} {
		if !errors.Is(err, messages.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	go func() { came <- l.Resize(messages.Size{}) }()
	p.fail(p.expect(wire.ProcessResize), wire.UnknownMethod, "exec-server stub does not implement `process/resize` yet")
	if err := within(t, "the resize", came); !errors.Is(err, messages.ErrUnsupported) {
		t.Error(err)
	}
	written := l.write("x", time.Now().Add(patience))
	m = p.expect(wire.ProcessWrite)
	if params := writeOf(t, m); params.UntilTaken || params.PatienceMs != nil {
		t.Errorf("%s", m.Params)
	}
	p.answer(m, wire.WriteResult{Status: wire.WriteAccepted})
	if r := within(t, "the write", written); r.taken != 1 || r.err != nil {
		t.Errorf("%+v", r)
	}
	l.EndTree(time.Second)
	if m := p.expect(wire.ProcessTerminate); strings.Contains(string(m.Params), "grace") {
		t.Errorf("%s", m.Params)
	}
}
