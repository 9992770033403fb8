package client

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/ptyio"
)

// FuzzServer lets a server send arbitrary lines to a client with two processes, one of which has missed an event. The client must stay
// usable or disconnect, and no process may end twice.
func FuzzServer(f *testing.F) {
	for _, lie := range lies {
		if text := said(lie.tell, lie.plain); len(text) < 10_000 {
			f.Add(lie.plain, text)
		}
	}
	f.Add(false, []byte(`{"method":"process/output","params":{"processId":"1","seq":1,"stream":"stdout","chunk":"eA=="}}
{"method":"process/exited","params":{"processId":"1","seq":2,"exitCode":0,"status":{"kind":"signal","signal":"SIGTERM"}}}
{"method":"process/drained","params":{"processId":"1","seq":3}}
{"method":"process/closed","params":{"processId":"1","seq":4}}
{"method":"process/ended","params":{"processId":"1","seq":5,"tree":{"ended":1,"airtight":true}}}`))
	f.Add(true, []byte(`{"id":1,"result":{"chunks":[{"seq":4,"stream":"pty","chunk":"eA=="}],"nextSeq":9,"exited":true,"exitCode":null,"closed":true}}`))
	f.Fuzz(func(t *testing.T, plain bool, text []byte) {
		times, limits := quick()
		times.recover, limits.close, limits.end = time.Millisecond, 5*time.Millisecond, 5*time.Millisecond
		here, there := newPair()
		s := newSpawner(once(here), "fuzz", times, limits)
		extensions := all
		if plain {
			extensions = nil
		}
		greeted := make(chan struct{})
		go func() {
			defer close(greeted)
			_, _ = there.Read(context.Background())
			answer, _ := wire.AppendResult(nil, wire.NumberID(0), wire.InitializeResult{SessionID: "s", Extensions: extensions})
			_ = there.Write(context.Background(), answer)
			_, _ = there.Read(context.Background())
		}()
		if err := s.link.open(context.Background()); err != nil {
			t.Fatal(err)
		}
		<-greeted
		drained := make(chan struct{})
		go func() { // and nothing is answered but by the text
			defer close(drained)
			for {
				if _, err := there.Read(context.Background()); err != nil {
					return
				}
			}
		}()
		logs := []*log{newLog(), newLog()}
		for i, id := range []string{"1", "2"} {
			c := s.newChild(id, ptyio.Launch{Argv: []string{"x"}, TTY: i == 0, Events: logs[i].receive})
			if err := s.register(c); err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				c.feed.resume()
			}
			go c.run()
		}
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if there.Write(context.Background(), line) != nil {
				break
			}
		}
		_ = s.Close()
		_ = there.Close()
		<-drained
		for _, l := range logs {
			l.ended(t)
			checkOrder(t, l)
		}
	})
}

// checkOrder checks what ptyio promises about the events of a child.
func checkOrder(t *testing.T, l *log) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[kind]int{}
	for _, e := range l.events {
		switch e.(type) {
		case ptyio.Exited:
			seen[exited]++
		case ptyio.Background:
			seen[background]++
		case ptyio.Drained:
			seen[drained]++
		case ptyio.Closed:
			seen[closed]++
		case ptyio.TreeEnded:
			seen[ended]++
		}
		if seen[exited] == 0 || seen[closed] > 0 && seen[drained] == 0 {
			t.Errorf("%T came too early", e)
		}
	}
	for _, k := range []kind{exited, drained, closed, ended} {
		if seen[k] != 1 {
			t.Errorf("event %d came %d times", k, seen[k])
		}
	}
	if seen[background] > 1 {
		t.Errorf("%d background events", seen[background])
	}
	if _, last := l.events[len(l.events)-1].(ptyio.TreeEnded); !last {
		t.Errorf("%T is the last event", l.events[len(l.events)-1])
	}
}

// said returns the bytes that a lie sends.
func said(tell func(*peer, *log), plain bool) []byte {
	record := &recorder{}
	p := &peer{t: &testing.B{}, Conn: record}
	tell(p, &log{id: "1", holding: true})
	return bytes.Join(record.lines, []byte("\n"))
}

// recorder is a connection that keeps what is written, and on which there is one request.
type recorder struct {
	lines [][]byte
}

func (r *recorder) Read(context.Context) ([]byte, error) {
	return []byte(`{"id":1,"method":"process/read","params":{}}`), nil
}

func (r *recorder) Write(_ context.Context, text []byte) error {
	if len(r.lines) >= 100 {
		return context.Canceled
	}
	r.lines = append(r.lines, text)
	return nil
}
func (r *recorder) Ping(context.Context) error { return nil }
func (r *recorder) Binary() bool               { return false }
func (r *recorder) Close() error               { return nil }
