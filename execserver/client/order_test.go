package client

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestEventsOfAServerWithFlowAreToldAsTheyAre(t *testing.T) {
	p := newPeer(t, all...)
	l := p.start(p.connect(), ptyio.Launch{})
	if l.PID() != 4711 {
		t.Errorf("pid %d", l.PID())
	}
	p.chunk(l, 1, "one ")
	p.tell(wire.ProcessExited, wire.ExitedParams{ProcessID: l.id, Seq: 2, ExitCode: 143, Status: new(messages.StatusSignaled(15)),
		Denial: &messages.Denial{Operation: "write"}, Limit: messages.LimitMemory})
	p.tell(wire.ProcessBackground, wire.BackgroundParams{ProcessID: l.id, Seq: 3, Count: 2})
	p.chunk(l, 4, "two")
	p.tell(wire.ProcessDrained, wire.SeqParams{ProcessID: l.id, Seq: 5})
	p.close(l, 6)
	p.end(l, 7)
	exited, tree := l.ended(t)
	if exited.Status != messages.StatusSignaled(15) || exited.Lost != nil || exited.Denial == nil || exited.Denial.Operation != "write" || exited.Limit != messages.LimitMemory {
		t.Errorf("%+v", exited)
	}
	if tree.Ended != 2 || !tree.Airtight || l.text() != "one two" {
		t.Errorf("%+v, %q", tree, l.text())
	}
	if got := l.names(); got != "Spawned Exited Background Drained Closed TreeEnded" {
		t.Error(got)
	}
}

func TestALifeWithoutExtensions(t *testing.T) {
	p := newPeer(t)
	times, limits := quick()
	limits.drain = patience // the end of the output comes in time
	l := p.start(p.connectIn(times, limits), ptyio.Launch{})
	p.chunk(l, 1, "text")
	p.finish(l, 2)
	exited, _ := l.ended(t)
	if exited.Status != messages.StatusExited(0) || l.text() != "text" || l.names() != "Spawned Exited Drained Closed TreeEnded" {
		t.Errorf("%+v, %v", exited, l)
	}
}

func TestExitStatusesOfAServerWithoutExtensions(t *testing.T) {
	for code, want := range map[int]messages.ExitStatus{0: messages.StatusExited(0), 255: messages.StatusExited(255), 143: messages.StatusExited(143),
		-1: messages.StatusNone(), 256: messages.StatusNone()} {
		p := newPeer(t)
		l := p.start(p.connect(), ptyio.Launch{})
		p.tell(wire.ProcessExited, wire.ExitedParams{ProcessID: l.id, Seq: 1, ExitCode: code, SandboxDenied: new(true)})
		p.close(l, 2)
		exited, _ := l.ended(t)
		if exited.Status != want || (exited.Lost != nil) != (want == messages.StatusNone()) {
			t.Errorf("exit code %d: %+v", code, exited)
		}
		if exited.Denial == nil || !exited.Denial.FromText {
			t.Errorf("the denial was dropped: %+v", exited)
		}
	}
}

func TestABackgroundProcessThatHoldsTheOutputIsNoticed(t *testing.T) {
	p := newPeer(t)
	l := p.start(p.connect(), ptyio.Launch{})
	p.exit(l, 1, 0)
	p.answer(p.expect(wire.ProcessTerminate), wire.TerminateResult{}) // only the client ends the processes that the leader left behind
	l.await(t, "the drain", func() bool { return len(l.events) == 4 })
	if got := l.names(); got != "Spawned Exited Drained Background" {
		t.Error(got)
	}
	p.chunk(l, 2, "late")
	p.close(l, 3)
	l.ended(t)
	if l.text() != "late" || l.names() != "Spawned Exited Drained Background Closed TreeEnded" {
		t.Error(l)
	}
}

func TestEventsThatComeTwiceAreToldOnce(t *testing.T) {
	p := newPeer(t)
	l := p.start(p.connect(), ptyio.Launch{})
	for _, seq := range []uint64{1, 1, 2, 1, 2, 3} {
		p.chunk(l, seq, string(rune('a'+seq-1)))
	}
	p.exit(l, 4, 7)
	p.exit(l, 4, 7)
	p.chunk(l, 5, "d")
	p.close(l, 6)
	if exited, _ := l.ended(t); exited.Status != messages.StatusExited(7) || l.text() != "abcd" {
		t.Errorf("%+v, %q", exited, l.text())
	}
}

func TestEventsInAnyOrderAreReadInTheirs(t *testing.T) {
	p := newPeer(t)
	l := p.start(p.connect(), ptyio.Launch{})
	p.close(l, 6)
	p.chunk(l, 2, "b")
	p.exit(l, 4, 7)
	p.chunk(l, 1, "a")
	p.page(l, 0, wire.ReadResult{Chunks: append(chunks(1, "a", "b", "c"), chunks(5, "d")...), NextSeq: 7, Exited: true, ExitCode: new(7), Closed: true})
	p.chunk(l, 3, "c")
	exited, _ := l.ended(t)
	if exited.Status != messages.StatusExited(7) || l.text() != "abcd" || l.lost != 0 {
		t.Errorf("%+v, %q", exited, l.text())
	}
}

// What comes while the client reads and is not in the answer is read after it.
func TestALateEventIsReadAgain(t *testing.T) {
	p := newPeer(t)
	l := p.start(p.connect(), ptyio.Launch{})
	p.chunk(l, 2, "b")
	m := p.expect(wire.ProcessRead)
	p.chunk(l, 3, "c")
	p.answer(m, wire.ReadResult{Chunks: chunks(1, "a", "b"), NextSeq: 3})
	p.page(l, 2, wire.ReadResult{Chunks: chunks(3, "c"), NextSeq: 4})
	p.finish(l, 4)
	if exited, _ := l.ended(t); exited.Lost != nil || l.text() != "abc" || l.lost != 0 {
		t.Errorf("%+v, %q, %d lost", exited, l.text(), l.lost)
	}
}

// page answers a read.
func (p *peer) page(l *log, after uint64, result wire.ReadResult) {
	p.t.Helper()
	m := p.expect(wire.ProcessRead)
	var params wire.ReadParams
	if err := json.Unmarshal(m.Params, &params); err != nil || params.ProcessID != l.id || params.AfterSeq == nil || *params.AfterSeq != after {
		p.t.Errorf("%s, want what is behind %d", m.Params, after)
	}
	p.answer(m, result)
}

func chunks(first uint64, texts ...string) (list []wire.ReadChunk) {
	for i, text := range texts {
		list = append(list, wire.ReadChunk{Seq: first + uint64(i), Stream: messages.StreamStdout, Chunk: []byte(text)})
	}
	return list
}

func TestAMissingEventIsRead(t *testing.T) {
	p := newPeer(t)
	l := p.start(p.connect(), ptyio.Launch{})
	p.chunk(l, 1, "a")
	p.chunk(l, 3, "c")
	p.page(l, 1, wire.ReadResult{Chunks: chunks(2, "b", "c"), NextSeq: 4})
	p.chunk(l, 4, "d")
	p.finish(l, 5)
	if exited, _ := l.ended(t); exited.Status != messages.StatusExited(0) || l.text() != "abcd" || l.lost != 0 {
		t.Errorf("%+v, %q, %d lost", exited, l.text(), l.lost)
	}
}

func TestAnOwnerThatIsLateReadsWhatItMissed(t *testing.T) {
	p := newPeer(t)
	s := p.connect()
	l := newLog()
	l.holding = true
	l = p.startLog(s, l)
	half := strings.Repeat("x", 64<<10)
	sent := 0
	for ; sent < 100; sent++ { // far more than is kept
		p.chunk(l, uint64(sent+1), half)
	}
	answered := p.round(s) // all of it has arrived
	l.release()
	<-answered
	m := p.expect(wire.ProcessRead)
	var params wire.ReadParams
	if err := json.Unmarshal(m.Params, &params); err != nil {
		t.Fatal(err)
	}
	after := *params.AfterSeq
	if after < 33 || after > 33+33+2 { // what waits when one event too many has come, once or after the pump took as much, and its credits
		t.Errorf("it was read from %d on", after)
	}
	p.answer(m, wire.ReadResult{Chunks: chunks(91, half, half, half, half, half, half, half, half, half, half), NextSeq: 101})
	l.await(t, "the read was told", func() bool { return l.offset == int64(after+10)*int64(len(half))+int64(90-after) })
	p.finish(l, 101)
	l.ended(t)
	got := int64(len(l.text()))
	if want := int64(after+10) * int64(len(half)); got != want || l.lost != int64(90-after) {
		t.Errorf("%d bytes, want %d; %d lost after %d", got, want, l.lost, after)
	}
}

// startLog is start with a log that exists.
func (p *peer) startLog(s *spawner, l *log) *log {
	p.t.Helper()
	started := p.start(s, ptyio.Launch{Argv: []string{"flood"}})
	started.mu.Lock()
	defer started.mu.Unlock()
	started.holding = l.holding
	return started
}

// round makes a call. Its answer shows that the client has read everything before it.
func (p *peer) round(s *spawner) <-chan struct{} {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.link.ask(context.Background(), &call{again: true}, wire.EnvironmentStatus, nil)
	}()
	p.answer(p.expect(wire.EnvironmentStatus), wire.StatusResult{Status: wire.Ready})
	return done
}

func TestWhatAReadTells(t *testing.T) {
	five := 5
	failure := "the disk is full"
	for name, test := range map[string]struct {
		page  wire.ReadResult
		then  func(p *peer, l *log)
		text  string
		lost  int64
		code  int
		wrong bool
	}{
		"the end":                        {page: wire.ReadResult{Chunks: chunks(2, "b"), NextSeq: 5, Exited: true, ExitCode: &five, Closed: true}, text: "ab", code: 5},
		"an exit between chunks":         {page: wire.ReadResult{Chunks: append(chunks(2, "b"), chunks(4, "d")...), NextSeq: 6, Exited: true, ExitCode: &five, Closed: true}, text: "abd", code: 5},
		"an exit that is told again":     {page: wire.ReadResult{Chunks: chunks(2, "b"), NextSeq: 4, Exited: true, ExitCode: &five}, then: func(p *peer, l *log) { p.exit(l, 3, 5); p.close(l, 4) }, text: "ab", code: 5},
		"an exit that it does not count": {page: wire.ReadResult{Chunks: chunks(2, "b"), NextSeq: 3, Exited: true, ExitCode: &five}, then: func(p *peer, l *log) { p.exit(l, 3, 5); p.close(l, 4) }, text: "ab", code: 5},
		"chunks that are gone":           {page: wire.ReadResult{Chunks: chunks(9, "i"), NextSeq: 12, Exited: true, ExitCode: &five, Closed: true}, text: "ai", lost: 7, code: 5},
		"a process that it has lost":     {page: wire.ReadResult{NextSeq: 2, Exited: true, Closed: true, Failure: &failure}, text: "a", wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			l := p.start(p.connect(), ptyio.Launch{})
			p.chunk(l, 1, "a")
			l.awaitText(t, "a")
			_ = p.Close()
			p.resumed()
			p.page(l, 1, test.page)
			if test.then != nil {
				l.awaitText(t, test.text)
				test.then(p, l)
			}
			exited, _ := l.ended(t)
			if test.wrong != (exited.Lost != nil) || !test.wrong && exited.Status != messages.StatusExited(test.code) || l.text() != test.text || l.lost != test.lost {
				t.Errorf("%+v, %q, %d lost", exited, l.text(), l.lost)
			}
		})
	}
}

// acknowledged returns the event that the next message acknowledges.
func (p *peer) acknowledged(l *log) uint64 {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := p.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	m, _ := wire.Parse(text)
	var params wire.SeqParams
	if err := json.Unmarshal(m.Params, &params); err != nil || m.Method != wire.ProcessAcknowledge || params.ProcessID != l.id {
		p.t.Fatalf("%s", text)
	}
	return params.Seq
}

func TestOutputIsAcknowledgedWhenItWasTold(t *testing.T) {
	p := newPeer(t, all...)
	s := p.connect()
	l := p.startLog(s, &log{holding: true})
	text := strings.Repeat("x", 64<<10)
	for i := range 20 { // more than a MiB
		p.chunk(l, uint64(i+1), text)
	}
	l.await(t, "the credits are out", func() bool { return len(l.hold) == ptyio.Credits/2 })
	l.release()
	last := uint64(0)
	for last < 16 {
		seq := p.acknowledged(l)
		if seq <= last {
			t.Fatalf("event %d is acknowledged after event %d", seq, last)
		}
		last = seq
	}
	p.finish(l, 21)
	l.ended(t)
}

// The server would send again what it was told to forget, and more after each cut.
func TestAfterACutTheClientAcknowledgesAgain(t *testing.T) {
	p := newPeer(t, all...)
	l := p.start(p.connect(), ptyio.Launch{})
	for i := range acknowledgeBytes / wire.MaxChunk {
		p.chunk(l, uint64(i+1), strings.Repeat("x", wire.MaxChunk))
	}
	last := p.acknowledged(l)
	_ = p.Close()
	p.resumed()
	if again := p.acknowledged(l); again < last {
		t.Errorf("event %d is acknowledged after event %d", again, last)
	}
	p.finish(l, acknowledgeBytes/wire.MaxChunk+1)
	l.ended(t)
}

func TestNothingIsReadBehindTheEndOfTheOutput(t *testing.T) {
	f := newFeed(false)
	for _, it := range []item{{kind: exited, seq: 1}, {kind: closed, seq: 2}, {kind: output, seq: 4}} {
		if err := f.put(it); err != nil {
			t.Fatal(err)
		}
	}
	f.resume()
	if s := f.take(); s.behind || len(s.items) != 1 {
		t.Errorf("%+v", s)
	}
}
