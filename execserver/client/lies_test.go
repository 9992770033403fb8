package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// lies are violations of the protocol that no honest server makes. The next event of the process is number 1.
var lies = map[string]struct {
	plain bool // without extensions
	tell  func(p *peer, l *log)
	says  string
}{
	"text that is no JSON":       {tell: func(p *peer, _ *log) { p.say("{") }, says: "malformed"},
	"a value that is no message": {tell: func(p *peer, _ *log) { p.say("[]") }, says: "malformed"},
	"an empty message":           {tell: func(p *peer, _ *log) { p.say("") }, says: "malformed"},
	"text that is not UTF-8":     {tell: func(p *peer, _ *log) { p.say("{\"method\":\"\xff\"}") }, says: "malformed"},
	"a name that occurs twice":   {tell: func(p *peer, _ *log) { p.say(`{"method":"a","method":"b"}`) }, says: "twice"},
	"deep nesting":               {tell: func(p *peer, _ *log) { p.say(`{"method":"x","params":` + strings.Repeat("[", 1<<20)) }, says: "nested"},
	"many values":                {tell: func(p *peer, _ *log) { p.say(`{"method":"x","params":[` + strings.Repeat("0,", 1<<19) + `0]}`) }, says: "values"},
	"an answer nobody asked for": {tell: func(p *peer, _ *log) { p.say(`{"id":99,"result":{}}`) }, says: "not asked"},
	"an error nobody asked for":  {tell: func(p *peer, _ *log) { p.say(`{"id":-1,"error":{"code":-32600,"message":"no"}}`) }, says: "not asked"},
	"a second answer":            {tell: func(p *peer, _ *log) { p.say(`{"id":1,"result":{}}`) }, says: "not asked"},
	"an answer with another id":  {tell: func(p *peer, _ *log) { p.say(`{"id":"1","result":{}}`) }, says: "not asked"},
	"params of the wrong type":   {tell: func(p *peer, _ *log) { p.say(`{"method":"process/output","params":[]}`) }, says: "malformed"},
	"a chunk that is no base64":  {tell: func(p *peer, l *log) { p.say(outputOf(l, `"*"`)) }, says: "malformed"},
	"an empty chunk":             {tell: func(p *peer, l *log) { p.chunk(l, 1, "") }, says: "0 bytes"},
	"an unknown stream":          {tell: func(p *peer, l *log) { p.say(strings.Replace(outputOf(l, `"eA=="`), "stdout", "beyond", 1)) }, says: "stream"},
	"a negative number":          {tell: func(p *peer, l *log) { p.say(strings.Replace(outputOf(l, `"eA=="`), `:1,`, `:-1,`, 1)) }, says: "malformed"},
	"event 0":                    {tell: func(p *peer, l *log) { p.chunk(l, 0, "x") }, says: "numbers"},
	"the last number there is":   {plain: true, tell: func(p *peer, l *log) { p.chunk(l, 1<<64-1, "x") }, says: "numbers"},
	"a hole":                     {tell: func(p *peer, l *log) { p.chunk(l, 2, "x") }, says: "after event 0"},
	"two drains": {tell: func(p *peer, l *log) {
		p.exit(l, 1, 0)
		p.tell(wire.ProcessDrained, wire.SeqParams{ProcessID: l.id, Seq: 2})
		p.tell(wire.ProcessDrained, wire.SeqParams{ProcessID: l.id, Seq: 3})
	}, says: "happens once"},
	"a read beyond its end":       {plain: true, tell: reads(`{"chunks":[{"seq":5,"stream":"stdout","chunk":"eA=="}],"nextSeq":3}`), says: "cannot follow"},
	"two ends":                    {tell: func(p *peer, l *log) { p.exit(l, 1, 0); p.close(l, 2); p.close(l, 3) }, says: "happens once"},
	"an end without an exit":      {tell: func(p *peer, l *log) { p.close(l, 1) }, says: "has not exited"},
	"a drain without an exit":     {tell: func(p *peer, l *log) { p.tell(wire.ProcessDrained, wire.SeqParams{ProcessID: l.id, Seq: 1}) }, says: "has not exited"},
	"output after its end":        {tell: func(p *peer, l *log) { p.exit(l, 1, 0); p.close(l, 2); p.chunk(l, 3, "x") }, says: "after the end"},
	"the last without the end":    {tell: func(p *peer, l *log) { p.exit(l, 1, 0); p.end(l, 2) }, says: "whose output has not"},
	"a flood beyond the window":   {tell: flood, says: "acknowledged"},
	"requests without an end":     {tell: func(p *peer, _ *log) { p.questions() }, says: "without reading"},
	"a read that goes backwards":  {plain: true, tell: reads(`{"chunks":[],"nextSeq":0,"exited":false,"closed":false}`), says: "is next"},
	"a read with wrong chunks":    {plain: true, tell: reads(`{"chunks":[{"seq":1,"stream":"stdout","chunk":"eA=="},{"seq":1,"stream":"stdout","chunk":"eA=="}],"nextSeq":3}`), says: "cannot follow"},
	"a read that does not know":   {plain: true, tell: reads(`{"chunks":[],"nextSeq":1}`), says: "does not have"},
	"a read that is no object":    {plain: true, tell: reads(`7`), says: "malformed"},
	"a read of a closed live one": {plain: true, tell: reads(`{"chunks":[],"nextSeq":3,"closed":true}`), says: "is next"},
	"an exit that is not a number": {tell: func(p *peer, l *log) {
		p.say(`{"method":"process/exited","params":{"processId":"` + l.id + `","seq":1,"exitCode":"0"}}`)
	}, says: "malformed"},
}

func outputOf(l *log, chunk string) string {
	return `{"method":"process/output","params":{"processId":"` + l.id + `","seq":1,"stream":"stdout","chunk":` + chunk + `}}`
}

// flood sends more output than may wait, while the owner takes none.
func flood(p *peer, l *log) {
	l.mu.Lock()
	l.holding = true
	l.mu.Unlock()
	text := strings.Repeat("x", wire.MaxChunk)
	for i := range 2*maxFlowing/wire.MaxChunk + 10 {
		p.chunk(l, uint64(i+1), text)
	}
}

// questions asks the client until it gives up, and reads no answer.
func (p *peer) questions() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for p.Write(ctx, []byte(`{"id":"why","method":"why"}`)) == nil {
	}
}

// reads leaves out an event and answers the read that follows.
func reads(answer string) func(p *peer, l *log) {
	return func(p *peer, l *log) {
		p.chunk(l, 2, "x")
		m := p.expect(wire.ProcessRead)
		p.say(`{"id":` + m.ID.String() + `,"result":` + answer + `}`)
	}
}

func TestALyingServerIsLeft(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			var extensions []wire.Extension
			if !lie.plain {
				extensions = all
			}
			p := newPeer(t, extensions...)
			s := p.connect()
			l, other := p.start(s, ptyio.Launch{}), p.start(s, ptyio.Launch{})
			lie.tell(p, l)
			exited, _ := other.ended(t) // the client no longer believes the server
			l.release()
			l.ended(t)
			typed, is := errors.AsType[*messages.Error](exited.Lost)
			if !is || typed.Code != messages.ErrRuntimeFailure || !strings.Contains(typed.Detail, lie.says) || !strings.Contains(typed.Detail, "protocol") {
				t.Errorf("%v", exited.Lost)
			}
			if !strings.Contains(name, "requests") {
				p.gone()
			}
			within(t, "the end of the link", s.link.done)
			if _, err := s.Spawn(context.Background(), ptyio.Launch{Argv: []string{"true"}, Dir: "/", Events: func(ptyio.Event) {}}); err == nil {
				t.Error("a dead session starts a process")
			}
			if len(p.dialled) > 0 {
				t.Error("it connected again")
			}
		})
	}
}

func TestALieAboutOneProcessEndsOnlyItsOwnOrder(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.start(s, ptyio.Launch{})
	p.tell(wire.ProcessOutput, wire.OutputParams{ProcessID: "another", Seq: 7, Stream: messages.StreamStdout, Chunk: []byte("x")})
	p.tell("something/new", nil)
	p.say(`{"id":"why","method":"why","params":{}}`)
	if m := p.receive(); m.Kind != wire.Failure || m.Fault.Code != wire.UnknownMethod || m.ID.String() != `"why"` {
		t.Errorf("%+v", m)
	}
	p.chunk(l, 1, "x")
	p.chunk(l, 1, "x") // twice is no lie: a cut repeats things
	p.finish(l, 2)
	if exited, _ := l.ended(t); exited.Lost != nil || l.text() != "x" {
		t.Errorf("%+v, %v", exited, l)
	}
}

func TestAHandshakeThatIsBroken(t *testing.T) {
	for name, answer := range map[string]func(p *peer, hello wire.Message){
		"no JSON":    func(p *peer, _ wire.Message) { p.say("hello") },
		"no session": func(p *peer, m wire.Message) { p.answer(m, wire.Empty{}) },
		"a long id": func(p *peer, m wire.Message) {
			p.answer(m, wire.InitializeResult{SessionID: strings.Repeat("x", 1000)})
		},
		"a result of its own": func(p *peer, m wire.Message) { p.answer(m, 7) },
		"a request":           func(p *peer, _ wire.Message) { p.say(`{"id":1,"method":"initialize"}`) },
		"another answer":      func(p *peer, _ wire.Message) { p.say(`{"id":1,"result":{"sessionId":"x"}}`) },
		"a refusal":           func(p *peer, m wire.Message) { p.fail(m, wire.InvalidRequest, "go away\x1b[2J") },
		"half of what it has": func(p *peer, m wire.Message) {
			p.answer(m, wire.InitializeResult{SessionID: "x", Extensions: []wire.Extension{wire.ExtensionFlow}})
		},
		"an end": func(p *peer, _ wire.Message) { _ = p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, all...)
			times, limits := quick()
			came := make(chan error, 1)
			go func() {
				_, err := begin(context.Background(), p.dial, "", times, limits)
				came <- err
			}()
			p.accept()
			answer(p, p.expect(wire.Initialize))
			err := within(t, "an error", came)
			if !errors.Is(err, messages.ErrRuntimeFailure) || strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("%v", err)
			}
			p.gone()
		})
	}
}

func TestConnectingHasABound(t *testing.T) {
	times, limits := quick()
	times.dial, times.handshake = 20*time.Millisecond, 20*time.Millisecond
	silent := func(context.Context) (wire.Conn, error) {
		here, _ := newPair()
		return here, nil
	}
	hangs := func(ctx context.Context) (wire.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, dial := range map[string]dialer{"a dial that hangs": hangs, "a server that says nothing": silent} {
		if _, err := begin(context.Background(), dial, "", times, limits); !errors.Is(err, messages.ErrRuntimeFailure) {
			t.Errorf("%s: %v", name, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := begin(ctx, dial, "", usualTimes(), limits); !errors.Is(err, messages.ErrCancelled) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:1", "http://x", "ws://", "unix://host/path", "unix://", "wss:///x", "stdio", "\x00"} {
		if _, err := Dial(context.Background(), address, Options{}); !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, address := range []string{"ws://127.0.0.1:1", "unix:///nowhere/at/all"} {
		if _, err := Dial(context.Background(), address, Options{}); !errors.Is(err, messages.ErrRuntimeFailure) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
