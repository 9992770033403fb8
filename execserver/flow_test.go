package execserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// floodLines make more output than a server keeps, with extensions or without.
const floodLines = 1_000_000

var floodText = func() string {
	var b strings.Builder
	for i := 1; i <= floodLines; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}()

func flood(id string) wire.StartParams { return startParams(id, "seq", fmt.Sprint(floodLines)) }

// begun opens a session over a stream without buffers and starts a process. It reads only the answers.
func begun(t *testing.T, s *Server, params wire.StartParams, extensions ...wire.Extension) wire.Conn {
	conn := asked(t, s, params, extensions...)
	heard(t, conn)
	return conn
}

func heard(t *testing.T, conn wire.Conn) {
	t.Helper()
	if answer, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(answer), "result") {
		t.Fatalf("got %s, %v", answer, err)
	}
}

// asked is begun, except that the answer to the start is not read.
func asked(t *testing.T, s *Server, params wire.StartParams, extensions ...wire.Extension) wire.Conn {
	here, there := net.Pipe()
	conn := wire.Lines(here, here, wire.MaxMessage)
	askedOver(t, s, conn, wire.Lines(there, there, wire.MaxMessage), params, extensions...)
	return conn
}

// askedOver is asked over a connection that exists.
func askedOver(t *testing.T, s *Server, conn, there wire.Conn, params wire.StartParams, extensions ...wire.Extension) {
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.serve(context.Background(), there, false)
	}()
	t.Cleanup(func() {
		conn.Close()
		<-served
	})
	opening, _ := json.Marshal(wire.InitializeParams{ClientName: "slow", Extensions: extensions})
	starting, _ := json.Marshal(params)
	for i, text := range []string{`{"id":1,"method":"initialize","params":` + string(opening) + `}`, `{"method":"initialized"}`,
		`{"id":2,"method":"process/start","params":` + string(starting) + `}`} {
		if err := conn.Write(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			heard(t, conn)
		}
	}
}

// rest reads notifications about a process up to one of a kind. It checks that none is missing.
func rest(t *testing.T, conn wire.Conn, last string) (text string) {
	t.Helper()
	next := uint64(1)
	for {
		raw, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind != wire.Notification {
			continue
		}
		n := paramsOf(m)
		if n.Seq != next {
			t.Fatalf("%s: got number %d, want %d", m.Method, n.Seq, next)
		}
		next++
		if text += string(n.Chunk); m.Method == last {
			return text
		}
	}
}

// only returns the process "p" of the only session that has one.
func (s *Server) only(t *testing.T) *process {
	p := s.maybe()
	if p == nil {
		t.Fatal("there is no process")
	}
	return p
}

// maybe is only, except that there may be none yet.
func (s *Server) maybe() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		if p := session.find("p"); p != nil {
			return p
		}
	}
	return nil
}

func TestAProcessWaitsForASlowClient(t *testing.T) {
	s := newServer(t, Options{})
	conn := begun(t, s, flood("p"))
	p := s.only(t)
	until(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.parked) > 0
	})
	if text := rest(t, conn, wire.ProcessClosed); text != floodText {
		t.Errorf("got %d of %d bytes", len(text), len(floodText))
	}
}

// untilOne waits until the server has a process for which a condition holds. It calls the condition with the process's lock held.
func untilOne(t *testing.T, s *Server, condition func(*process) bool) {
	t.Helper()
	until(t, func() bool {
		p := s.maybe()
		if p == nil {
			return false
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return condition(p)
	})
}

// untilHeld waits until a process exists and has to wait for its client.
func untilHeld(t *testing.T, s *Server) {
	t.Helper()
	untilOne(t, s, func(p *process) bool { return len(p.parked) > 0 })
}

func TestAProcessWaitsForAClientThatIsSlowToReadTheAnswerToItsStart(t *testing.T) {
	s := newServer(t, Options{})
	conn := asked(t, s, flood("p"))
	untilHeld(t, s)
	heard(t, conn)
	if text := rest(t, conn, wire.ProcessClosed); text != floodText {
		t.Errorf("got %d of %d bytes", len(text), len(floodText))
	}
}

func TestAStartThatIsCancelledFreesAProcessThatWaits(t *testing.T) {
	for _, extension := range []wire.Extension{"", wire.ExtensionFlow} {
		proceed := make(chan struct{})
		s := newServerOf(t, tardy{newSpawner(t), proceed}, Options{})
		c := inProcess(t, s)
		c.open("", extension)
		started := c.send(wire.ProcessStart, startParams("p", "yes"))
		untilHeld(t, s)
		ask[wire.TerminateResult](t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: "p"})
		close(proceed)
		if _, fault := understood[wire.StartResult](t, started); fault == nil || !strings.Contains(fault.Message, "start was cancelled") {
			t.Errorf("got %v", fault)
		}
		s.Close()
	}
}

func TestAProcessDoesNotWaitForAClientThatIsGone(t *testing.T) {
	s := newServer(t, Options{})
	conn := begun(t, s, flood("p"))
	p := s.only(t)
	conn.Close()
	until(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.closed
	})
	page := p.read(0, nil)
	var text strings.Builder
	for _, chunk := range page.Chunks {
		text.Write(chunk.Chunk)
	}
	if !strings.HasSuffix(floodText, text.String()) || text.Len() > wire.RetainedBytes || text.Len() < wire.RetainedBytes-wire.MaxChunk {
		t.Errorf("%d bytes are kept", text.Len())
	}
}

func TestWithFlowAProcessWaitsForAcknowledgements(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	session := c.open("", wire.ExtensionFlow)
	c.start(flood("p"))
	p := s.only(t)
	var text string
	upTo := uint64(0)
	for text != floodText {
		until(t, func() bool { // it waits, or has written everything
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.parked) > 0 || p.closed
		})
		c.close() // the server will send again what the client has not acknowledged
		c = inProcess(t, s)
		c.open(session)
		p.mu.Lock()
		newest := p.past.now.seq
		p.mu.Unlock()
		c.happened("p", func(m wire.Message) bool { return paramsOf(m).Seq >= newest })
		c.mu.Lock()
		for _, m := range c.got {
			n := paramsOf(m)
			if n.Seq != upTo+1 {
				t.Fatalf("got number %d behind %d", n.Seq, upTo)
			}
			upTo = n.Seq
			text += string(n.Chunk)
		}
		c.mu.Unlock()
		if !strings.HasPrefix(floodText, text) {
			t.Fatal("the output is not in order")
		}
		c.tell(wire.ProcessAcknowledge, wire.SeqParams{ProcessID: "p", Seq: upTo})
		ask[wire.StatusResult](t, c, wire.EnvironmentStatus, nil) // it has arrived
	}
}

// The server may forget what has ended, but not what a client with flow has not acknowledged.
func TestAClosedProcessIsKeptUntilItsEndIsAcknowledged(t *testing.T) {
	const many, each = 18, 3_900_000 // together more than maxClosedBytes
	s := newServer(t, Options{MaxProcesses: many})
	c := inProcess(t, s)
	session := c.open("", wire.ExtensionFlow, wire.ExtensionEnds, wire.ExtensionRaw)
	for i := range many {
		c.start(startParams(fmt.Sprint(i), "head", "-c", fmt.Sprint(each), "/dev/zero"))
	}
	ends := make([]uint64, many)
	for i := range ends {
		ends[i] = paramsOf(c.happened(fmt.Sprint(i), is(wire.ProcessEnded))).Seq
	}
	c.close()
	c = inProcess(t, s)
	c.open(session)
	for i, end := range ends {
		if again := paramsOf(c.happened(fmt.Sprint(i), is(wire.ProcessEnded))).Seq; again != end {
			t.Errorf("the end of process %d is event %d, and was event %d", i, again, end)
		}
	}
}

func TestASessionHasALimitOfUnacknowledgedProcesses(t *testing.T) {
	c := opened(t, Options{MaxProcesses: 1}, wire.ExtensionFlow, wire.ExtensionEnds)
	var end wire.EndedParams
	for _, id := range []string{"first", "second"} {
		c.start(startParams(id, "true"))
		if err := wire.DecodeParams(c.happened(id, is(wire.ProcessEnded)).Params, &end); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, c, wire.ProcessStart, startParams("third", "true"), wire.Internal, "not acknowledged")
	c.tell(wire.ProcessAcknowledge, wire.SeqParams{ProcessID: "second", Seq: end.Seq})
	c.start(startParams("third", "true"))
}

func TestASessionThatEndsFreesAProcessThatWaits(t *testing.T) {
	for _, extension := range []wire.Extension{"", wire.ExtensionFlow} {
		s := newServer(t, Options{})
		begun(t, s, startParams("p", "yes"), extension)
		p := s.only(t)
		until(t, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.parked) > 0
		})
		s.Close()
	}
}

func TestAClientThatReadsNothingIsDisconnected(t *testing.T) {
	s := newServer(t, Options{patience: patience{stall: 100 * time.Millisecond}})
	here, there := newPair() // it has room for the first messages, which are not to be late
	askedOver(t, s, here, there, startParams("p", "yes"))
	until(t, func() bool { return here.Ping(t.Context()) != nil })
	for _, err := here.Read(t.Context()); err != io.EOF; {
		_, err = here.Read(t.Context())
	}
}

func TestOthersDoNotNoticeASlowClient(t *testing.T) {
	s := newServer(t, Options{})
	begun(t, s, startParams("p", "yes"))
	c := inProcess(t, s)
	c.open("")
	if text, code := c.result(startParams("q", "echo", "hi")); text != "hi\n" || code != 0 {
		t.Errorf("got %q, %d", text, code)
	}
}

func TestAClientWithEndsHearsEverything(t *testing.T) {
	c := opened(t, Options{}, wire.ExtensionEnds, "unknown")
	params := shell("p", "sleep 1000 & echo $!; kill -KILL $$")
	params.OnLeaderExit, params.GraceMs = "end_tree", new(uint32)
	if result := c.start(params); result.PID == 0 {
		t.Errorf("got %+v", result)
	}
	ended := c.happened("p", is(wire.ProcessEnded))
	var end wire.EndedParams
	var exited wire.ExitedParams
	if err := wire.DecodeParams(ended.Params, &end); err != nil || end.Tree.Ended != 1 || !end.Tree.Airtight {
		t.Errorf("got %+v, %v", end, err)
	}
	if err := wire.DecodeParams(c.happened("p", is(wire.ProcessExited)).Params, &exited); err != nil || exited.ExitCode != 137 || exited.Status.String() != "signal(9)" {
		t.Errorf("got %+v, %v", exited, err)
	}
	for _, method := range []string{wire.ProcessBackground, wire.ProcessDrained, wire.ProcessClosed} {
		c.happened("p", is(method))
	}
	if _, seqs := c.output("p"); seqs[len(seqs)-1] != end.Seq || end.Seq != uint64(len(seqs)) {
		t.Errorf("the numbers are %v", seqs)
	}
}

func TestOutputCanBeRaw(t *testing.T) {
	everyTransport(t, Options{}, func(t *testing.T, c *client) {
		c.open("", wire.ExtensionRaw)
		if text, _ := c.result(shell("p", "printf '\\000\\377\\n{}'")); text != "\x00\xff\n{}" {
			t.Errorf("got %q", text)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, m := range c.got {
			if m.Method == wire.ProcessOutput && (m.Params[0] == 0) != c.conn.Binary() {
				t.Errorf("got %q", m.Params)
			}
		}
	})
}
