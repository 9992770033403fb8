package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// result is the outcome of a write.
type result struct {
	taken int
	err   error
}

func (l *log) write(text string, deadline time.Time) <-chan result {
	came := make(chan result, 2)
	l.Write([]byte(text), deadline, func(taken ptyio.Taken, err error) { came <- result{taken.Bytes, err} })
	return came
}

func writeOf(t *testing.T, m wire.Message) (params wire.WriteParams) {
	t.Helper()
	if err := json.Unmarshal(m.Params, &params); err != nil || params.WriteID == nil || *params.WriteID == "" {
		t.Errorf("%s, %v", m.Params, err)
	}
	return params
}

func TestACutIsHealed(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{OpenStdin: true})
	p.chunk(l, 1, "a")
	l.awaitText(t, "a")
	first, second := l.write("one", time.Time{}), l.write("two", time.Time{})
	before := writeOf(t, p.expect(wire.ProcessWrite))
	signal := make(chan error, 1)
	also := writeOf(t, p.expect(wire.ProcessWrite))
	go func() { signal <- l.Signal(syscall.SIGUSR1, ptyio.Foreground) }()
	p.expect(wire.ProcessSignal)
	p.answer(wire.Message{ID: wire.NumberID(2)}, wire.WriteResult{Status: wire.WriteAccepted})
	if r := within(t, "the first write", first); r.taken != 3 || r.err != nil {
		t.Errorf("%+v", r)
	}
	_ = p.Close()
	p.resumed()
	if err := within(t, "the signal", signal); !errors.Is(err, messages.ErrRuntimeFailure) || !strings.Contains(err.Error(), "not known") {
		t.Errorf("a signal that may have arrived: %v", err)
	}
	m := p.expect(wire.ProcessWrite)
	again := writeOf(t, m)
	if string(again.Chunk) != "two" || *again.WriteID != *also.WriteID || *again.WriteID == *before.WriteID {
		t.Errorf("%s was sent again", m.Params)
	}
	p.answer(m, wire.WriteResult{Status: wire.WriteAccepted, Taken: new(3)})
	if r := within(t, "the second write", second); r.taken != 3 || r.err != nil {
		t.Errorf("%+v", r)
	}
	p.chunk(l, 1, "a")
	p.chunk(l, 2, "b")
	p.finish(l, 3)
	if exited, _ := l.ended(t); exited.Lost != nil || l.text() != "ab" || l.lost != 0 {
		t.Errorf("%+v, %v", exited, l)
	}
	if len(first)+len(second) > 0 {
		t.Error("a write was answered twice")
	}
}

// The server keeps a process until its end is acknowledged, and the connection may have broken before it was.
func TestAnEndThatComesAgainIsAcknowledgedAgain(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{})
	p.finish(l, 1)
	if seq := p.acknowledged(l); seq != 3 {
		t.Errorf("event %d is acknowledged", seq)
	}
	s.running.Wait() // the process is no longer followed
	_ = p.Close()
	p.accept()
	hello := p.expect(wire.Initialize)
	p.end(l, 3) // a server may send it before its answer, or after it
	p.answer(hello, wire.InitializeResult{SessionID: "session", Extensions: all})
	p.expect(wire.Initialized)
	for range 2 {
		if seq := p.acknowledged(l); seq != 3 {
			t.Errorf("event %d is acknowledged", seq)
		}
		p.end(l, 3)
	}
}

// Calls that are made while there is no connection wait for the next one.
func TestCallsOutliveAnOutage(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{TTY: true})
	down := errors.New("there is no way")
	p.refused.Store(&down)
	_ = p.Close()
	signal, resize := make(chan error, 1), make(chan error, 1)
	written := l.write("x", time.Time{})
	go func() { resize <- l.Resize(messages.Size{Rows: 1, Cols: 2}) }()
	p.wait(s, 2)
	go func() { signal <- l.Signal(syscall.SIGTERM, ptyio.Tree) }() // it was not sent before
	p.wait(s, 3)
	p.refused.Store(nil)
	p.resumed()
	for range 3 {
		m := p.receive()
		switch m.Method {
		case wire.ProcessWrite:
			p.answer(m, wire.WriteResult{Status: wire.WriteAccepted})
		case wire.ProcessSignal:
			if !strings.Contains(string(m.Params), `"SIGTERM","tree":true`) {
				t.Errorf("%s", m.Params)
			}
			p.answer(m, wire.Empty{})
		case wire.ProcessResize:
			if !strings.Contains(string(m.Params), `"rows":1,"cols":2`) {
				t.Errorf("%s", m.Params)
			}
			p.answer(m, wire.Empty{})
		default:
			t.Errorf("%s", m.Method)
		}
	}
	if r := within(t, "the write", written); r.err != nil {
		t.Error(r.err)
	}
	if err := errors.Join(within(t, "the signal", signal), within(t, "the resize", resize)); err != nil {
		t.Error(err)
	}
}

// wait waits until this number of calls is pending.
func (p *peer) wait(s *spawner, calls int) {
	p.t.Helper()
	for until := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		s.link.mu.Lock()
		n := len(s.link.calls)
		s.link.mu.Unlock()
		if n == calls {
			return
		}
		if time.Now().After(until) {
			p.t.Fatalf("there are %d calls, want %d", n, calls)
		}
	}
}

func TestASessionThatIsStillAttachedIsResumedLater(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{})
	_ = p.Close()
	for range 3 {
		p.accept()
		p.fail(p.expect(wire.Initialize), wire.SessionAttached, "session is already attached to another connection")
	}
	p.resumed()
	p.finish(l, 1)
	if exited, _ := l.ended(t); exited.Lost != nil {
		t.Errorf("%+v", exited)
	}
}

func TestASessionThatIsLostFailsEverything(t *testing.T) {
	for name, lose := range map[string]func(p *peer){
		"it is unknown": func(p *peer) {
			p.accept()
			p.fail(p.expect(wire.Initialize), wire.InvalidRequest, "unknown session id session")
		},
		"another is resumed": func(p *peer) {
			p.accept()
			p.answer(p.expect(wire.Initialize), wire.InitializeResult{SessionID: "other", Extensions: all})
		},
		"nobody answers in time": func(p *peer) {},
		"the connections break": func(p *peer) {
			for range 5 {
				p.accept()
				_ = p.Close()
			}
			p.accept()
			p.fail(p.expect(wire.Initialize), wire.InvalidRequest, "unknown session id session")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, all...)
			times, limits := quick()
			times.recover = patience
			if strings.Contains(name, "in time") {
				times.recover = 500 * time.Millisecond
			}
			s := p.connectIn(times, limits)
			l := p.start(s, ptyio.Launch{TTY: true})
			p.chunk(l, 1, "a")
			written := l.write("x", time.Time{})
			p.expect(wire.ProcessWrite)
			_ = p.Close()
			lose(p)
			exited, tree := l.ended(t)
			if !errors.Is(exited.Lost, messages.ErrRuntimeFailure) || exited.Status != messages.StatusNone() || l.text() != "a" {
				t.Errorf("%+v, %v", exited, l)
			}
			if len(tree.Survivors) != 1 || tree.Survivors[0].PID != 4711 || tree.Survivors[0].Name != "true" {
				t.Errorf("%+v", tree)
			}
			if r := within(t, "the write", written); r.err == nil {
				t.Error("a write to a lost process succeeded")
			}
			within(t, "the end of the link", s.link.done)
			for what, err := range map[string]error{"signal": l.Signal(15, ptyio.Tree), "resize": l.Resize(messages.Size{})} {
				if err == nil {
					t.Errorf("%s succeeded", what)
				}
			}
			if _, err := s.Resolver().IsDir(context.Background(), "/"); err == nil {
				t.Error("a lost machine was asked")
			}
		})
	}
}

func TestAStartIsNotMadeTwice(t *testing.T) {
	for name, then := range map[string]struct {
		answer func(p *peer, m wire.Message)
		reads  []string
		fails  error
	}{
		"it was not made": {answer: func(p *peer, m wire.Message) {
			var params wire.StartParams
			_ = json.Unmarshal(m.Params, &params)
			p.answer(m, wire.StartResult{ProcessID: params.ProcessID})
		}},
		"it was made": {answer: func(p *peer, m wire.Message) {
			p.fail(m, wire.InvalidRequest, "process 1 already exists; use another id")
		},
			reads: []string{"process id 1 is starting", "process id 1 is starting", ""}},
		"it has failed": {answer: func(p *peer, m wire.Message) { p.fail(m, wire.InvalidRequest, "process 1 already exists") },
			reads: []string{"process id 1 is starting", "unknown process id 1"}, fails: messages.ErrInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, all...)
			s := p.connect()
			l := newLog()
			came := make(chan error, 1)
			go func() {
				_, err := s.Spawn(context.Background(), ptyio.Launch{Argv: []string{"true"}, Dir: "/", Events: l.receive})
				came <- err
			}()
			var first, second wire.StartParams
			_ = json.Unmarshal(p.expect(wire.ProcessStart).Params, &first)
			_ = p.Close()
			p.resumed()
			m := p.expect(wire.ProcessStart)
			_ = json.Unmarshal(m.Params, &second)
			if l.id = second.ProcessID; first.ProcessID != second.ProcessID || l.id == "" {
				t.Errorf("%q and %q", first.ProcessID, second.ProcessID)
			}
			then.answer(p, m)
			for _, refusal := range then.reads {
				if m := p.expect(wire.ProcessRead); refusal != "" {
					p.fail(m, wire.InvalidRequest, refusal)
				} else {
					p.answer(m, wire.ReadResult{NextSeq: 1})
				}
			}
			if err := within(t, "the start", came); !errors.Is(err, then.fails) || (err == nil) != (then.fails == nil) {
				t.Fatalf("%v", err)
			}
			if then.fails == nil {
				p.finish(l, 1)
				l.ended(t)
			}
		})
	}
}

func TestAnIDThatIsTakenFails(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	came := make(chan error, 1)
	go func() {
		_, err := s.Spawn(context.Background(), ptyio.Launch{Argv: []string{"true"}, Dir: "/", Events: func(ptyio.Event) {}})
		came <- err
	}()
	p.fail(p.expect(wire.ProcessStart), wire.InvalidRequest, "process 1 already exists")
	if err := within(t, "the start", came); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
}

// A cut at every point of many conversations must not lose or repeat anything.
func TestManyCuts(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{})
	var want strings.Builder
	seq := uint64(1)
	for i := range 200 {
		for range i % 4 {
			text := fmt.Sprintf("%d,", seq)
			want.WriteString(text)
			p.chunk(l, seq, text)
			seq++
		}
		_ = p.Close()
		p.resumed()
		for again := uint64(1); again < seq; again++ { // the cut may have lost what earlier cuts had lost before
			p.chunk(l, again, fmt.Sprintf("%d,", again))
		}
	}
	p.finish(l, seq)
	if exited, _ := l.ended(t); exited.Lost != nil || l.text() != want.String() {
		t.Errorf("%+v, %q", exited, l.text())
	}
}
