package execserver

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

func TestTheHandshakeComesFirst(t *testing.T) {
	everyTransport(t, Options{}, func(t *testing.T, c *client) {
		read := wire.ReadParams{ProcessID: "p"}
		refused(t, c, wire.ProcessRead, read, wire.InvalidRequest, "must call initialize", "exec methods")
		refused(t, c, wire.EnvironmentStatus, nil, wire.InvalidRequest, "must call initialize", "environment methods")
		refused(t, c, "http/request", nil, wire.UnknownMethod, "http/request")
		refused(t, c, wire.Initialize, map[string]any{}, wire.InvalidParams, "clientName")
		first := ask[wire.InitializeResult](t, c, wire.Initialize, wire.InitializeParams{ClientName: "test"})
		if len(first.SessionID) != 36 || first.Extensions != nil {
			t.Errorf("got %+v", first)
		}
		refused(t, c, wire.ProcessRead, read, wire.InvalidRequest, "must send initialized", "exec methods")
		refused(t, c, wire.Initialize, wire.InitializeParams{ClientName: "test"}, wire.InvalidRequest, "once")
		c.tell(wire.Initialized, map[string]any{"what": []int{1}})
		refused(t, c, wire.ProcessRead, read, wire.InvalidRequest, "unknown process id p")
		if got := ask[wire.StatusResult](t, c, wire.EnvironmentStatus, nil); got.Status != "ready" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestRudeClientsAreDisconnected(t *testing.T) {
	spawner := newSpawner(t)
	for name, messages := range map[string][]string{
		"initialized first":    {`{"method":"initialized"}`},
		"unknown notification": {`{"id":1,"method":"initialize","params":{"clientName":"x"}}`, `{"method":"initialized"}`, `{"method":"process/output","params":{}}`},
		"acknowledge first":    {`{"method":"process/acknowledge","params":{"processId":"p","seq":1}}`},
		"wrong acknowledge":    {`{"id":1,"method":"initialize","params":{"clientName":"x"}}`, `{"method":"initialized"}`, `{"method":"process/acknowledge","params":{"processId":"p"}}`},
		"response":             {`{"id":1,"result":{}}`},
		"failure":              {`{"id":1,"error":{"code":1,"message":"m"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServerOf(t, spawner, Options{})
			here, there := newPair()
			served := make(chan error, 1)
			go func() { served <- s.serve(context.Background(), there, false) }()
			for _, m := range messages {
				if err := here.Write(t.Context(), []byte(m)); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-served; !errors.Is(err, errProtocol) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAMalformedMessageIsAnsweredAndNothingElse(t *testing.T) {
	s := newServer(t, Options{})
	here, there := newPair()
	go func() { _ = s.serve(context.Background(), there, false) }()
	for _, bad := range []string{"", "{", "[]", `{"id":{}}`, "\xff", `{"id":1}`, strings.Repeat("[", 1000), `{"method":"a","method":"b"}`} {
		if err := here.Write(t.Context(), []byte(bad)); err != nil {
			t.Fatal(err)
		}
		text, err := here.Read(t.Context())
		if err != nil || !strings.HasPrefix(string(text), `{"id":-1,"error":{"code":-32600,"message":"the message is malformed: `) {
			t.Errorf("%.20q: got %s, %v", bad, text, err)
		}
	}
	c := newClient(t, here)
	c.open("")
}

// resumable starts a server and a session that has a process with an input.
func resumable(t *testing.T, options Options, extensions ...wire.Extension) (s *Server, c *client, session string) {
	s = newServer(t, options)
	c = inProcess(t, s)
	session = c.open("", extensions...)
	params := startParams("p", "cat")
	params.PipeStdin = true
	c.start(params)
	return s, c, session
}

func (c *client) write(process, text string) {
	c.t.Helper()
	if result := ask[wire.WriteResult](c.t, c, wire.ProcessWrite, wire.WriteParams{ProcessID: process, Chunk: wire.Chunk(text)}); result.Status != wire.WriteAccepted {
		c.t.Errorf("got %+v", result)
	}
}

func outputIs(text string) func(wire.Message) bool {
	return func(m wire.Message) bool { return string(paramsOf(m).Chunk) == text }
}

func TestASessionOutlivesItsConnection(t *testing.T) {
	s, c, session := resumable(t, Options{})
	c.write("p", "one")
	c.says("p", "one")
	c.close()
	c = inProcess(t, s)
	if again := c.open(session); again != session {
		t.Errorf("got session %s", again)
	}
	c.write("p", "two")
	if n := paramsOf(c.happened("p", outputIs("two"))); n.Seq != 2 {
		t.Errorf("got %+v", n)
	}
	page := ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p"})
	if len(page.Chunks) != 2 || page.Exited {
		t.Errorf("got %+v", page)
	}
	if text, _ := c.output("p"); text != "two" {
		t.Errorf("what was sent before was sent again: %q", text)
	}
}

func TestOutputAndExitAreKeptWhileNobodyIsConnected(t *testing.T) {
	s, c, session := resumable(t, Options{})
	refused(t, c, wire.ProcessStart, startParams("p", "true"), wire.InvalidRequest, "p already exists")
	c.write("p", "last")
	ask[wire.WriteResult](t, c, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: "p"})
	c.happened("p", is(wire.ProcessClosed))
	c.close()
	c = inProcess(t, s)
	c.open(session)
	page := ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p", WaitMs: new(uint64(1e9))})
	if !page.Closed || len(page.Chunks) != 1 || string(page.Chunks[0].Chunk) != "last" || *page.ExitCode != 0 {
		t.Errorf("got %+v", page)
	}
	refused(t, c, wire.ProcessStart, startParams("p", "true"), wire.InvalidRequest, "p already exists")
}

func TestOnlyADetachedSessionIsResumed(t *testing.T) {
	s, c, session := resumable(t, Options{})
	other := inProcess(t, s)
	refused(t, other, wire.Initialize, wire.InitializeParams{ClientName: "x", ResumeSessionID: &session}, wire.SessionAttached, session, "attached")
	refused(t, other, wire.Initialize, wire.InitializeParams{ClientName: "x", ResumeSessionID: new("nope")}, wire.InvalidRequest, "unknown session id nope")
	other.open("")
	c.write("p", "still here")
	c.says("p", "still here")
}

func TestAConnectionThatDoesNotAnswerLosesItsSession(t *testing.T) {
	s := newServer(t, Options{patience: patience{probe: time.Millisecond}})
	here, there := newPair()
	served := make(chan error, 1)
	go func() { served <- s.serve(context.Background(), mute{there}, false) }()
	dead := newClient(t, here)
	session := dead.open("")
	c := inProcess(t, s)
	if again := c.open(session); again != session {
		t.Errorf("got %s", again)
	}
	if err := <-served; err != nil && !errors.Is(err, io.EOF) {
		t.Logf("the dead connection ended with %v", err)
	}
}

// mute is a connection whose other side does not answer.
type mute struct{ wire.Conn }

func (mute) Ping(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAConnectionThatAnswersNoPingEnds(t *testing.T) {
	s := newServer(t, Options{patience: patience{ping: time.Millisecond, pong: time.Millisecond}})
	_, there := newPair()
	if err := s.serve(context.Background(), mute{there}, false); err == nil {
		t.Error("it ended well")
	}
}

func TestAConnectionThatSaysNothingEnds(t *testing.T) {
	s := newServer(t, Options{patience: patience{handshake: time.Millisecond}})
	_, there := newPair()
	if err := s.serve(context.Background(), there, false); err != nil {
		t.Error(err)
	}
}

func TestADetachedSessionExpires(t *testing.T) {
	s, c, session := resumable(t, Options{Detached: time.Millisecond})
	c.close()
	s.mu.Lock()
	one := s.sessions[session]
	s.mu.Unlock()
	if one != nil {
		<-one.ctx.Done()
	}
	other := inProcess(t, s)
	refused(t, other, wire.Initialize, wire.InitializeParams{ClientName: "x", ResumeSessionID: &session}, wire.InvalidRequest, "unknown session id")
	s.Close() // returns when the process is gone
}

func TestTheOnlyConnectionEndsItsSession(t *testing.T) {
	s := newServer(t, Options{})
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(context.Background(), in, out) }()
	c := newClient(t, wire.Lines(fromServer, toServer, wire.MaxMessage))
	c.open("")
	c.start(startParams("p", "sleep", "1000"))
	c.close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	left := len(s.sessions)
	s.mu.Unlock()
	if left != 0 {
		t.Errorf("%d sessions are left", left)
	}
}

func TestWhatIsNotAcknowledgedIsSentAgain(t *testing.T) {
	s, c, session := resumable(t, Options{}, wire.ExtensionFlow)
	for _, text := range []string{"one", "two", "three"} {
		c.write("p", text)
		c.says("p", text)
	}
	c.tell(wire.ProcessAcknowledge, wire.SeqParams{ProcessID: "p", Seq: 1})
	c.write("p", "four")
	c.says("p", "four")
	c.close()
	c = inProcess(t, s)
	c.open(session)
	c.says("p", "four")
	if text, seqs := c.output("p"); text != "twothreefour" || seqs[0] != 2 {
		t.Errorf("got %q, %v", text, seqs)
	}
}

func TestAServerHasALimitOfSessions(t *testing.T) {
	s := newServer(t, Options{MaxSessions: 1})
	inProcess(t, s).open("")
	refused(t, inProcess(t, s), wire.Initialize, wire.InitializeParams{ClientName: "x"}, wire.Internal, "limit of 1 sessions")
}
