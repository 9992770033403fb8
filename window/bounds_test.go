package window

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Viewers keep out nobody who may act, and make nobody's page forgotten.
func TestViewersTakeNoRoomFromThoseWhoMayAct(t *testing.T) {
	w := &Window{ctx: t.Context(), seats: map[seatKey]*seat{}}
	viewers := 0
	for w.enter(true) {
		if viewers++; viewers > maxSockets {
			t.Fatal("viewers are not bounded")
		}
	}
	people := 0
	for w.enter(false) {
		if people++; people > maxSockets {
			t.Fatal("pages are not bounded")
		}
	}
	if viewers != maxViewing || people != maxSockets-maxViewing || people == 0 {
		t.Errorf("%d viewers, %d others", viewers, people)
	}
	for range maxSockets {
		s := w.sit(seatKey{name: "viewer"}, true)
		if !s.reader {
			t.Fatal("a viewer may act")
		}
		w.rise(s)
	}
	if len(w.seats) > 0 {
		t.Errorf("%d viewers are remembered", len(w.seats))
	}
}

// An action of a window that is closed is refused: what it takes would never be given back.
func TestAClosedWindowDoesNothing(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := new(seat).act(&Window{ctx: ctx}, hello{}, action{N: 1, Do: "take"}); err == nil {
		t.Error("it is carried out")
	}
}

// A look that fails, as one does whose last page has gone, makes nothing disappear from the pages that come next.
func TestALookThatFailsKeepsWhatWasSeen(t *testing.T) {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Shutdown(t.Context())
	session, err := rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSampler(&Window{source: hosted{rt, newTimeline()}, access: newAccess(Options{})})
	ctx, end := context.WithCancel(t.Context())
	end()
	next, _ := s.look(ctx, &look{processes: []*process{{key: key{session.ID(), 1000}}, {key: key{"closed", 1000}}}})
	if len(next.processes) != 1 || next.processes[0].Session != session.ID() || len(next.sessions) != 1 || next.sessions[0].Error == "" {
		t.Errorf("%+v, %+v", next.processes, next.sessions)
	}
}

// A time line keeps connections apart, and the differences of the last patches only.
func TestATimelineIsBounded(t *testing.T) {
	lines := newTimeline()
	lines.add(messages.NetworkConnection{Origin: messages.Origin{Session: "s", Process: 7}, Connection: messages.Connection{Host: "example.com", Port: 443, Allowed: true}})
	for i := range maxDiffs + 3 {
		lines.add(messages.PatchApplied{Origin: messages.Origin{Session: "s"}, Diff: fmt.Sprint("diff ", i)})
		lines.add(messages.ExecStarted{Origin: messages.Origin{Session: "s", Process: 7}})
	}
	var diffs []string
	for _, e := range lines.of("s", 0, maxEntries, func(entry) bool { return true }) {
		if e.Diff != "" {
			diffs = append(diffs, e.Diff)
		}
	}
	if len(diffs) != maxDiffs || diffs[0] != fmt.Sprint("diff ", maxDiffs+2) {
		t.Errorf("%q", diffs)
	}
	if talks := lines.of("s", 7, 64, func(e entry) bool { return e.Talk }); len(talks) != 1 || !strings.Contains(talks[0].Text, "example.com") {
		t.Errorf("%+v", talks)
	}
	for range maxEntries {
		lines.add(messages.ExecStarted{Origin: messages.Origin{Session: "s", Process: 7}})
	}
	if all := lines.of("s", 0, 2*maxEntries, func(entry) bool { return true }); len(all) != maxEntries {
		t.Errorf("%d entries", len(all))
	}
}

// A browser that has silently gone is noticed, also if nothing is sent to it.
func TestABrowserThatAnswersNothingIsLeft(t *testing.T) {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Shutdown(t.Context())
	w, err := New(rt, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.pings, w.pongs = time.Millisecond, time.Minute
	server := httptest.NewServer(w)
	defer server.Close()
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	defer client.CloseIdleConnections()
	entered, err := client.Get(w.Link(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	entered.Body.Close()
	pinged := make(chan struct{}, 100)
	open := func() *websocket.Conn {
		socket, _, err := websocket.Dial(t.Context(), entered.Request.URL.String()+"live", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Origin": {server.URL}},
			OnPingReceived: func(context.Context, []byte) bool {
				select {
				case pinged <- struct{}{}:
				default:
				}
				return true
			}})
		if err != nil {
			t.Fatal(err)
		}
		if err := socket.Write(t.Context(), websocket.MessageText, []byte(`{"seat":"a"}`)); err != nil {
			t.Fatal(err)
		}
		return socket
	}
	left := func() {
		t.Helper()
		for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			w.mu.Lock()
			sockets := w.sockets
			w.mu.Unlock()
			switch {
			case sockets == 0:
				return
			case time.Now().After(late):
				t.Fatalf("%d pages are open", sockets)
			}
		}
	}
	answers := open()
	reading, end := context.WithCancel(t.Context())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for err := error(nil); err == nil; {
			_, _, err = answers.Read(reading)
		}
	}()
	for range 5 { // one that answers is asked again
		<-pinged
	}
	end()
	<-read
	_ = answers.CloseNow()
	left()
	w.pongs = time.Millisecond
	silent := open() // nobody reads, so nobody answers
	left()
	_ = silent.CloseNow()
}

// The answer to an action that takes something is waited for, also while the window is closed. The end of a process is not.
func TestWhatIsUnderWayIsFinished(t *testing.T) {
	w := &Window{}
	w.ctx, w.close = context.WithCancel(t.Context())
	actions := map[string]context.Context{}
	for _, do := range []string{"take", "type", "decide", "terminate"} {
		ctx, cancel := w.during(action{Do: do})
		defer cancel()
		if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
			t.Errorf("%s: %v", do, ctx.Err())
		}
		actions[do] = ctx
	}
	w.close()
	for do, ctx := range actions {
		if cancelled := ctx.Err() != nil; cancelled != (do == "terminate") {
			t.Errorf("%s: %v", do, ctx.Err())
		}
	}
}

// What an action that goes on takes is given back when its window is closed meanwhile.
func TestAClosedWindowWaitsForWhatIsBeingTaken(t *testing.T) {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Shutdown(context.Background())
	session, err := rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	process, err := session.Start(t.Context(), messages.ExecCommand{Argv: []string{"sleep", "1000"}, TTY: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(rt, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := w.sit(seatKey{name: "a"}, false)
	s.mu.Lock() // as an action does
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		w.Close()
	}()
	<-w.ctx.Done()
	taken, err := session.TakeKeyboard(t.Context(), messages.TakeKeyboard{Process: process.ID()})
	if err != nil {
		t.Fatal(err)
	}
	s.keyboards.Store(key{session.ID(), process.ID()}, taken)
	s.mu.Unlock()
	<-closed
	if info, err := process.Info(t.Context()); err != nil || info.Keyboard != nil {
		t.Errorf("%+v, %v", info.Keyboard, err)
	}
}

// A plot of something that does nothing stays as it is, however many samples it has: a page with a thousand of them has nothing to draw.
func TestAPlotOfNothingDoesNotChange(t *testing.T) {
	say := func(v float64) string { return fmt.Sprint(v) }
	var list []float64
	first := plot("CPU", []float64{7}, 100, say)
	for range samples {
		if list = append(list, 7); plot("CPU", list, 100, say) != first {
			t.Fatalf("%d samples: %s, and first %s", len(list), plot("CPU", list, 100, say), first)
		}
	}
	if list[3] = 8; plot("CPU", list, 100, say) == first {
		t.Error("it does not show what happens")
	}
}

// hurried is a response that knows its deadlines.
type hurried struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (h *hurried) SetWriteDeadline(at time.Time) error {
	h.deadlines = append(h.deadlines, at)
	return nil
}

// A browser that takes nothing of a page or a file holds no connection for ever.
func TestEachAnswerHasADeadline(t *testing.T) {
	w := &Window{access: newAccess(Options{}), ctx: t.Context()}
	h := &hurried{ResponseRecorder: httptest.NewRecorder()}
	w.ServeHTTP(h, httptest.NewRequest("GET", "http://localhost/", nil))
	if len(h.deadlines) != 1 || time.Until(h.deadlines[0]) > sendTime {
		t.Errorf("%v", h.deadlines)
	}
}
