package execserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// watched is the only session of a server.
func watched(t *testing.T, s *Server) Session {
	t.Helper()
	open := s.Sessions()
	if len(open) != 1 {
		t.Fatalf("%d sessions", len(open))
	}
	return open[0]
}

func TestPeopleSeeWhatRuns(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	id := c.open("")
	params := shell("a", "echo first; read line; echo $line")
	params.TTY, params.Size = true, &wire.Size{Rows: 10, Cols: 40}
	c.start(params)
	c.says("a", "first\r\n") // all of it, whose length counts below
	session := watched(t, s)
	if session.ID() == "" || strings.Contains(id, string(session.ID())) {
		t.Errorf("people are told the id by which the session can be taken: %s of %s", session.ID(), id)
	}
	list, err := session.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	info := list[0]
	if info.Process != firstNumber || info.Call != "a" || info.Owner != "test" || info.Label != "/bin/sh -c 'echo first; read line; echo $line'" || info.Dir != "/" || !info.TTY ||
		info.Size != (messages.Size{Rows: 10, Cols: 40}) || info.PID == 0 || info.State != messages.StateRunning || info.Began.IsZero() || info.End != nil || info.Awaits == nil {
		t.Errorf("%+v", info)
	}
	ask[wire.Empty](t, c, wire.ProcessResize, wire.ResizeParams{ProcessID: "a", Size: wire.Size{Rows: 20, Cols: 60}})
	if info, err = session.Info(t.Context(), info.Process); err != nil || info.Size != (messages.Size{Rows: 20, Cols: 60}) {
		t.Errorf("%+v, %v", info.Size, err)
	}
	sized := messages.TerminalSizes{{Size: messages.Size{Rows: 10, Cols: 40}}, {Offset: int64(len("first\r\n")), Size: messages.Size{Rows: 20, Cols: 60}}}
	if page, err := session.Read(t.Context(), messages.ReadOutput{Process: info.Process, Tail: 1}); err != nil || !slices.Equal(page.Sizes, sized) {
		t.Errorf("%+v, %v", page, err)
	}
	c.write("a", "second\n")
	c.happened("a", is(wire.ProcessClosed))
	var records messages.Processes
	for ; len(records) == 0; time.Sleep(time.Millisecond) { // it is over when its tree is, too
		if records, err = session.Records(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if end := records[0]; end.State != messages.StateClosed || end.End.Words() != "exited with code 0" || end.End.Duration <= 0 {
		t.Errorf("%+v, %+v", end, end.End)
	}
	if list, err := session.List(t.Context()); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	_, err = session.Info(t.Context(), firstNumber+1)
	if !errors.Is(err, messages.ErrUnknownProcess) {
		t.Error(err)
	}
}

// readAll reads from the beginning to what there is now.
func readAll(t *testing.T, s Session, page int) (text string) {
	t.Helper()
	for at := int64(0); ; {
		got, err := s.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Offset: &at, Max: page})
		if err != nil {
			t.Fatal(err)
		}
		if at == got.Total {
			return text
		}
		size := 0
		for _, chunk := range got.Chunks {
			if chunk.Offset != at {
				t.Fatalf("a chunk begins at %d, and the one before ends at %d", chunk.Offset, at)
			}
			at += int64(len(chunk.Bytes))
			size += len(chunk.Bytes)
			text += string(chunk.Bytes)
		}
		if size == 0 || size > page {
			t.Fatalf("a page has %d bytes, and was to have up to %d", size, page)
		}
	}
}

// People read the same bytes as the client, in pages of any size, and take none of them.
func TestPeopleReadAndTakeNothing(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	c.open("")
	c.start(shell("a", "for i in 1 2 3 4 5; do echo line $i; echo error $i >&2; done; read never"))
	c.says("a", "line 5")
	c.happened("a", is(wire.ProcessClosed)) // it has no input
	session := watched(t, s)
	want, _ := c.output("a")
	for _, page := range []int{1, 7, 1000} {
		if got := readAll(t, session, page); got != want || got == "" {
			t.Errorf("pages of %d bytes: %q; want %q", page, got, want)
		}
	}
	tail, err := session.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Tail: 3})
	if err != nil || len(tail.Chunks) != 1 || string(tail.Chunks[0].Bytes) != want[len(want)-3:] || !tail.Ended || tail.Total != int64(len(want)) {
		t.Errorf("%+v, %v", tail, err)
	}
	if again := ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "a"}); len(again.Chunks) == 0 {
		t.Error("the client finds nothing any more")
	}
	for _, m := range []messages.ReadOutput{{}, {Tail: 1, View: messages.ViewText}, {Line: new(int64)}} {
		m.Process = firstNumber
		if _, err := session.Read(t.Context(), m); !errors.Is(err, messages.ErrUnsupported) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

// People find lines, with their numbers.
func TestPeopleSearch(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	c.open("")
	c.start(startParams("a", "seq", "300000"))
	c.happened("a", is(wire.ProcessClosed))
	page, err := watched(t, s).Read(t.Context(), messages.ReadOutput{Process: firstNumber, Grep: &messages.Grep{Pattern: "^29999[89]$|^17$"}})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, l := range page.Lines {
		found = append(found, fmt.Sprintf("%d %s", l.Number, l.Bytes))
	}
	if want := []string{"299998 299998", "299999 299999"}; !slices.Equal(found, want) || page.Missed == 0 || page.Next != page.Total {
		t.Errorf("%q, %d bytes were missed, next is %d of %d", found, page.Missed, page.Next, page.Total) // the 17 is not kept
	}
	if _, err := watched(t, s).Read(t.Context(), messages.ReadOutput{Process: firstNumber, Grep: &messages.Grep{Pattern: "("}}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
}

// A process that waits for its client's acknowledgement goes on waiting, however much people read.
func TestPeopleWhoReadHaveNoPartInTheFlow(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	c.open("", wire.ExtensionFlow)
	c.start(shell("a", "yes"))
	session := watched(t, s)
	p := session.of.find("a")
	stalled := func() (held bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.parked) > 0
	}
	for !stalled() { // the test's own deadline says if it never waits
		time.Sleep(time.Millisecond)
	}
	text := readAll(t, session, 1<<20)
	if !strings.HasPrefix(text, "y\ny\n") || len(text) > wire.FlowBytes || !stalled() {
		t.Errorf("%d bytes, it waits %v", len(text), stalled())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acked.seq != 0 {
		t.Errorf("%+v is acknowledged", p.acked)
	}
}

// What is not kept any more is skipped if the reader says so, and is an error otherwise.
func TestPeopleSkipWhatIsNotKept(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	c.open("")
	c.start(shell("a", "head -c 3000000 /dev/zero | tr '\\0' x; echo end"))
	c.happened("a", is(wire.ProcessClosed))
	session := watched(t, s)
	begin := int64(5)
	if _, err := session.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Offset: &begin}); !errors.Is(err, messages.ErrOutputUnretained) {
		t.Error(err)
	}
	page, err := session.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Offset: &begin, SkipLost: true})
	if err != nil || page.Missed == 0 || page.Chunks[0].Offset != begin+page.Missed || page.Retained[0].First != begin+page.Missed || page.Retained[0].End != 3000004 {
		t.Errorf("%+v, %v", page, err)
	}
	for at, want := range map[int64]error{-1: messages.ErrInvalidRequest, 3000005: messages.ErrOutputUnretained} {
		if _, err := session.Read(t.Context(), messages.ReadOutput{Process: firstNumber, Offset: &at, SkipLost: true}); !errors.Is(err, want) {
			t.Errorf("%d: %v", at, err)
		}
	}
}

// A read waits for output, for the end, or for its own.
func TestPeopleWaitForOutput(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	c.open("")
	params := shell("a", "read line; echo $line; read end")
	params.PipeStdin = true
	c.start(params)
	session := watched(t, s)
	at := int64(0)
	read := messages.ReadOutput{Process: firstNumber, Offset: &at, Wait: bound}
	pages := make(chan *messages.OutputPage)
	wait := func() {
		go func() {
			page, err := session.Read(t.Context(), read)
			if err != nil {
				t.Error(err)
			}
			pages <- page
		}()
	}
	wait()
	c.write("a", "word\n")
	if page := <-pages; page == nil || string(page.Chunks[0].Bytes) != "word\n" || page.Ended {
		t.Errorf("%+v", page)
	}
	at = 5
	wait()
	c.write("a", "\n")
	if page := <-pages; page == nil || len(page.Chunks) != 0 || !page.Ended {
		t.Errorf("%+v", page)
	}
	at = 0
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := session.Read(gone, read); !errors.Is(err, messages.ErrCancelled) {
		t.Error(err)
	}
}

// People send signals to processes and end them, and the client is told of the ends.
func TestPeopleEndProcesses(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	c.open("")
	c.start(shell("a", "trap 'echo signalled' USR1; echo ready; while :; do sleep 0.05; done"))
	c.says("a", "ready")
	session := watched(t, s)
	if err := session.Signal(t.Context(), messages.Signal{Process: firstNumber, Signal: syscall.SIGUSR1}); err != nil {
		t.Error(err)
	}
	c.says("a", "signalled")
	end, err := session.Terminate(t.Context(), messages.Terminate{Process: firstNumber})
	if err != nil || !strings.HasPrefix(end.Words(), "was terminated on request") {
		t.Errorf("%+v, %v", end, err)
	}
	if exited := paramsOf(c.happened("a", is(wire.ProcessExited))); exited.ExitCode != 128+int(syscall.SIGTERM) {
		t.Errorf("%+v", exited)
	}
	if err := session.Signal(t.Context(), messages.Signal{Process: firstNumber, Signal: syscall.SIGUSR1}); !errors.Is(err, messages.ErrWrongState) {
		t.Error(err)
	}
	if again, err := session.Terminate(t.Context(), messages.Terminate{Process: firstNumber}); err != nil || again.Status != end.Status {
		t.Errorf("%+v, %v", again, err)
	}
	c.start(shell("slow", "trap 'sleep 1; exit 3' TERM; echo ready; while :; do sleep 0.05; done")) // longer than the usual grace
	c.says("slow", "ready")
	end, err = session.Terminate(t.Context(), messages.Terminate{Process: firstNumber + 1, Grace: new(bound)})
	if code, known := end.Status.Code(); err != nil || !known || code != 3 {
		t.Errorf("%+v, %v", end, err)
	}
}

// A caller that follows a server learns of each session and process, and a forgotten process is not found any more.
func TestPeopleFollowAServer(t *testing.T) {
	s := newServer(t, Options{patience: patience{retention: 1}})
	changes := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		s.Follow(ctx, func() {
			select {
			case changes <- struct{}{}:
			default:
			}
		})
	}()
	until := func(what string, condition func() bool) {
		t.Helper()
		for !condition() {
			select {
			case <-changes:
			case <-t.Context().Done():
				t.Fatal(what)
			}
		}
	}
	c := inProcess(t, s)
	c.open("")
	until("there is no session", func() bool { return len(s.Sessions()) == 1 })
	session := watched(t, s)
	params := startParams("a", "cat")
	params.PipeStdin = true
	c.start(params)
	running := func() bool {
		info, err := session.Info(t.Context(), firstNumber)
		return err == nil && info.State == messages.StateRunning
	}
	until("it does not run", running)
	ask[wire.WriteResult](t, c, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: "a"})
	until("it is not forgotten", func() bool {
		_, err := session.Info(t.Context(), firstNumber)
		return errors.Is(err, messages.ErrUnknownProcess)
	})
	session.of.end()
	until("the session is open", func() bool { return len(s.Sessions()) == 0 })
	stop()
	<-followed
}

// The people who see the screen, here or at the client, say where the cursor is; otherwise it is at the top left.
func TestThoseWhoSeeAScreenSayWhereTheCursorIs(t *testing.T) {
	s := newServer(t, Options{Detached: time.Hour})
	c := transports["websocket"](t, s)
	id := c.open("", wire.ExtensionCursor)
	params := shell("a", `stty raw -echo; printf ready; while head -c 1 >/dev/null; do printf '\033[6n'; head -c 6 | tail -c 5; done`)
	params.TTY, params.Unattended = true, true
	c.start(params)
	c.says("a", "ready")
	session := watched(t, s)
	said := "ready"
	asks := func(answer string, place func(messages.CursorPosition)) {
		t.Helper()
		c.write("a", "x")
		said += "\x1b[6n"
		c.says("a", said)
		place(messages.CursorPosition{Offset: int64(len(said)), Row: 2, Col: 3})
		said += answer
		c.says("a", said)
	}
	here := func(at messages.CursorPosition) {
		if err := session.PlaceCursor(t.Context(), messages.PlaceCursor{Process: firstNumber, Positions: []messages.CursorPosition{at}}); err != nil {
			t.Error(err)
		}
	}
	see := func(over bool) {
		if err := session.WatchTerminal(t.Context(), messages.WatchTerminal{Process: firstNumber, Over: over}); err != nil {
			t.Error(err)
		}
	}
	asks("[1;1R", func(messages.CursorPosition) {})
	see(false)
	see(false)
	see(true)
	asks("[2;3R", here)
	see(true)
	asks("[1;1R", func(messages.CursorPosition) {})
	ask[wire.Empty](t, c, wire.ProcessWatchTerminal, wire.WatchTerminalParams{ProcessID: "a", Watched: true})
	asks("[2;3R", func(at messages.CursorPosition) {
		ask[wire.Empty](t, c, wire.ProcessPlaceCursor, wire.PlaceCursorParams{ProcessID: "a", Positions: []messages.CursorPosition{at}})
	})
	p := session.of.find("a")
	isWatched := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.watched
	}
	if !isWatched() {
		t.Error("nobody sees the screen")
	}
	c.close()
	for isWatched() { // the test's own deadline says if those at a client that has gone see the screen for ever
		time.Sleep(time.Millisecond)
	}
	c = transports["websocket"](t, s)
	c.open(id)
	if !isWatched() {
		t.Error("the client is back, and its people do not see the screen")
	}
	refused(t, c, wire.ProcessPlaceCursor, wire.PlaceCursorParams{ProcessID: "none", Positions: []messages.CursorPosition{}}, wire.InvalidRequest, "unknown process id none")
}
