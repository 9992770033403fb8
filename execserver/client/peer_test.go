package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait. Only a failure waits that long.
const patience = time.Minute

// quick returns the bounds for tests.
func quick() (times, limits) {
	t, l := usualTimes(), usualLimits()
	t.pause, t.longer = 2*time.Millisecond, 10*time.Millisecond
	l.drain, l.close, l.write = 50*time.Millisecond, 5*time.Second, time.Second
	return t, l
}

var all = []wire.Extension{wire.ExtensionFlow, wire.ExtensionEnds}

// peer is a server that a test controls. It has one connection after another.
type peer struct {
	t          testing.TB
	extensions []wire.Extension
	dialled    chan wire.Conn        // the server's halves
	wire.Conn                        // the current one
	refused    atomic.Pointer[error] // fails a dial
}

func newPeer(t testing.TB, extensions ...wire.Extension) *peer {
	return &peer{t: t, extensions: extensions, dialled: make(chan wire.Conn, 16)}
}

func (p *peer) dial(context.Context) (wire.Conn, error) {
	if err := p.refused.Load(); err != nil {
		return nil, *err
	}
	here, there := newPair()
	p.dialled <- there
	return here, nil
}

// connect makes a client of the peer.
func (p *peer) connect() *spawner {
	p.t.Helper()
	times, limits := quick()
	return p.connectIn(times, limits)
}

func (p *peer) connectIn(times times, limits limits) *spawner {
	p.t.Helper()
	return p.connectOver(p.dial, times, limits)
}

func (p *peer) connectOver(dial dialer, times times, limits limits) *spawner {
	p.t.Helper()
	type result struct {
		spawner ptyio.Spawner
		err     error
	}
	came := make(chan result, 1)
	go func() {
		s, err := begin(context.Background(), dial, "", times, limits)
		came <- result{s, err}
	}()
	p.accept()
	p.welcome("session", false)
	r := within(p.t, "a session", came)
	if r.err != nil {
		p.t.Fatal(r.err)
	}
	s := r.spawner.(*spawner)
	p.t.Cleanup(func() {
		over := error(final{errors.New("the test is over")})
		p.refused.Store(&over)
		_ = p.Conn.Close()
		go func() {
			for {
				select {
				case conn := <-p.dialled:
					_ = conn.Close()
				case <-s.link.done:
					return
				}
			}
		}()
		if err := s.Close(); err != nil {
			p.t.Log(err)
		}
	})
	return s
}

// accept takes the next connection.
func (p *peer) accept() { p.Conn = within(p.t, "a connection", p.dialled) }

func within[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("never came: %s", what)
		panic("unreachable")
	}
}

// welcome answers initialize.
func (p *peer) welcome(session string, resumes bool) {
	p.t.Helper()
	hello := p.expect(wire.Initialize)
	var params wire.InitializeParams
	if err := json.Unmarshal(hello.Params, &params); err != nil || (params.ResumeSessionID != nil) != resumes {
		p.t.Errorf("%s, %v", hello.Params, err)
	}
	p.answer(hello, wire.InitializeResult{SessionID: session, Extensions: p.extensions})
	p.expect(wire.Initialized)
}

// resumed takes a connection that resumes the session.
func (p *peer) resumed() {
	p.t.Helper()
	p.accept()
	p.welcome("session", true)
}

// receive returns the next message of the client that is not an acknowledgement.
func (p *peer) receive() wire.Message {
	p.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		text, err := p.Read(ctx)
		cancel()
		if err != nil {
			p.t.Fatalf("nothing came: %v", err)
		}
		m, err := wire.Parse(text)
		if err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
		if m.Method != wire.ProcessAcknowledge {
			return m
		}
	}
}

func (p *peer) expect(method string) wire.Message {
	p.t.Helper()
	m := p.receive()
	if m.Method != method {
		p.t.Fatalf("%s %s came instead of %s", m.Method, m.Params, method)
	}
	return m
}

func (p *peer) answer(to wire.Message, result any) {
	p.t.Helper()
	text, err := wire.AppendResult(nil, to.ID, result)
	if err != nil {
		p.t.Fatal(err)
	}
	p.say(string(text))
}

func (p *peer) fail(to wire.Message, code wire.Code, message string) {
	p.t.Helper()
	p.say(string(wire.AppendFailure(nil, to.ID, wire.Refuse(code, "%s", message))))
}

func (p *peer) tell(method string, params any) {
	p.t.Helper()
	text, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		p.t.Fatal(err)
	}
	p.say(string(text))
}

// say sends text unchanged. It ignores the error if the client has gone.
func (p *peer) say(text string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = p.Write(ctx, []byte(text))
}

// gone waits until the client has closed the connection.
func (p *peer) gone() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if _, err := p.Read(ctx); err != nil {
			if !errors.Is(err, io.EOF) {
				p.t.Errorf("the connection was not closed: %v", err)
			}
			return
		}
	}
}

// log keeps the events of one child.
type log struct {
	ptyio.Child
	id      string
	mu      sync.Mutex
	changed chan struct{}
	events  []ptyio.Event // without Output
	output  strings.Builder
	offset  int64
	lost    int64
	hold    []ptyio.Output
	holding bool
}

func (l *log) receive(e ptyio.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o, is := e.(ptyio.Output); is {
		if o.At != nil && o.At.Offset > l.offset {
			l.lost += o.At.Offset - l.offset
			l.offset = o.At.Offset
		}
		l.offset += int64(len(o.Bytes))
		l.output.Write(o.Bytes)
		if l.holding {
			l.hold = append(l.hold, o)
		} else {
			o.Release()
		}
	} else {
		l.events = append(l.events, e)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// release releases the output that is held, and all later output.
func (l *log) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = false
	for _, o := range l.hold {
		o.Release()
	}
	l.hold = nil
}

func (l *log) await(t testing.TB, what string, is func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		over, changed := is(), l.changed
		l.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("never happened: %s; %v", what, l)
		}
	}
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("events %+v, %d bytes of output", l.events, l.output.Len())
}

// names lists the events other than output, in short.
func (l *log) names() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, e := range l.events {
		names = append(names, strings.TrimPrefix(fmt.Sprintf("%T", e), "ptyio."))
	}
	return strings.Join(names, " ")
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.output.String()
}

func (l *log) awaitText(t testing.TB, text string) {
	t.Helper()
	l.await(t, fmt.Sprintf("%q", text), func() bool { return l.output.String() == text })
}

// ended waits for the last event and returns the exit.
func (l *log) ended(t testing.TB) (exited ptyio.Exited, tree ptyio.TreeEnded) {
	t.Helper()
	l.await(t, "the end", func() bool {
		over := false
		for _, e := range l.events {
			switch e := e.(type) {
			case ptyio.Exited:
				exited = e
			case ptyio.TreeEnded:
				tree, over = e, true
			}
		}
		return over
	})
	return exited, tree
}

func newLog() *log { return &log{changed: make(chan struct{})} }

// start starts a process on the peer.
func (p *peer) start(s *spawner, launch ptyio.Launch) *log {
	p.t.Helper()
	l := newLog()
	launch.Events = l.receive
	if launch.Argv == nil {
		launch.Argv = []string{"true"}
	}
	if launch.Dir == "" {
		launch.Dir = "/"
	}
	failed := make(chan error, 1)
	spawned := make(chan ptyio.Child, 1)
	go func() {
		child, err := s.Spawn(context.Background(), launch)
		if err != nil {
			failed <- err
			return
		}
		spawned <- child
	}()
	m := p.expect(wire.ProcessStart)
	var params wire.StartParams
	if err := json.Unmarshal(m.Params, &params); err != nil {
		p.t.Fatal(err)
	}
	l.id = params.ProcessID
	p.answer(m, wire.StartResult{ProcessID: l.id, PID: 4711})
	select {
	case l.Child = <-spawned:
	case err := <-failed:
		p.t.Fatal(err)
	}
	return l
}

func (p *peer) chunk(l *log, seq uint64, text string) {
	p.t.Helper()
	p.tell(wire.ProcessOutput, wire.OutputParams{ProcessID: l.id, Seq: seq, Stream: messages.StreamStdout, Chunk: []byte(text)})
}

func (p *peer) exit(l *log, seq uint64, code int) {
	p.t.Helper()
	p.tell(wire.ProcessExited, wire.ExitedParams{ProcessID: l.id, Seq: seq, ExitCode: code})
}

func (p *peer) close(l *log, seq uint64) {
	p.t.Helper()
	p.tell(wire.ProcessClosed, wire.SeqParams{ProcessID: l.id, Seq: seq})
}

func (p *peer) end(l *log, seq uint64) {
	p.t.Helper()
	p.tell(wire.ProcessEnded, wire.EndedParams{ProcessID: l.id, Seq: seq, Tree: messages.TreeReport{Ended: 2, Airtight: true}})
}

// finish sends all events of a process that exits.
func (p *peer) finish(l *log, seq uint64) {
	p.t.Helper()
	p.exit(l, seq, 0)
	p.close(l, seq+1)
	if slices.Contains(p.extensions, wire.ExtensionEnds) {
		p.end(l, seq+2)
	}
}
