package window_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/window"
)

// serving is an exec-server as a source.
type serving struct{ *execserver.Server }

func (s serving) Sessions() (open []window.Session) {
	for _, one := range s.Server.Sessions() {
		open = append(open, one)
	}
	return open
}

func (s serving) Session(id messages.SessionID) window.Session {
	for _, one := range s.Sessions() {
		if one.ID() == id {
			return one
		}
	}
	return nil
}

// remote is a client of an exec-server, message by message.
type remote struct {
	t    *testing.T
	in   io.Writer
	told chan string // what the server says
}

func (r *remote) send(method string, id int, params any) {
	r.t.Helper()
	message := map[string]any{"method": method}
	if id > 0 {
		message["id"], message["params"] = id, params
	}
	text, _ := json.Marshal(message)
	if _, err := r.in.Write(append(text, '\n')); err != nil {
		r.t.Fatal(err)
	}
}

func (r *remote) hears(text string) {
	r.t.Helper()
	for late := time.After(patience); ; {
		select {
		case said, open := <-r.told:
			if strings.Contains(said, text) {
				return
			}
			if !open {
				r.t.Fatalf("the server has ended, and has not said %q", text)
			}
		case <-late:
			r.t.Fatalf("the server does not say %q", text)
		}
	}
}

// newServed is a window of an exec-server with a client.
func newServed(t *testing.T) (*stage, *remote) {
	t.Helper()
	spawner, err := execbus.NewSpawner()
	if err != nil {
		t.Fatal(err)
	}
	server, err := execserver.NewServer(spawner, execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	r := &remote{t, toServer, make(chan string, 10_000)} // more than a test makes it say
	go func() {
		defer out.Close()
		_ = server.ServeStream(context.Background(), in, out)
	}()
	go func() {
		defer close(r.told)
		for lines := bufio.NewScanner(fromServer); lines.Scan(); {
			r.told <- lines.Text()
		}
	}()
	w := window.Of(serving{server}, window.Options{})
	s := &stage{t, nil, w, httptest.NewServer(w)}
	t.Cleanup(func() {
		w.Close()
		s.server.Close()
		toServer.Close()
		server.Close()
		for range r.told {
		}
		if err := spawner.Close(); err != nil {
			t.Error(err)
		}
	})
	r.send("initialize", 1, map[string]any{"clientName": "<i>ada"})
	r.hears("sessionId")
	r.send("initialized", 0, nil)
	return s, r
}

// The window of an exec-server shows what runs and what it prints. It has the buttons that end it, and nothing of what a runtime has besides.
func TestAnExecServerHasAWindow(t *testing.T) {
	s, r := newServed(t)
	b := s.enter(s.window.Link(s.server.URL))
	overview := b.live(nil)
	overview.shows("sessions", "client-1")
	r.send("process/start", 2, map[string]any{"processId": "p", "argv": []string{"bash", "-c", `printf '\033[31mred\033[0m <b>\n'; read -r x; echo "got $x"; read -r x`}, "cwd": "/",
		"env": map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}, "tty": true, "size": map[string]int{"rows": 10, "cols": 50}})
	overview.shows("processes", "red")
	overview.shows("processes", "waits for input")
	if row := overview.part("processes"); !strings.Contains(row, "for &lt;i&gt;ada") || !strings.Contains(row, "running") {
		t.Errorf("%s", row)
	}
	at := func(seat string) map[string]any {
		return map[string]any{"seat": seat, "session": "client-1", "process": 1000}
	}
	p, err := b.connect(at("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.screenShows("red <b>")
	if p.last["rows"] != 10.0 || p.last["cols"] != 50.0 {
		t.Errorf("%v", p.last)
	}
	r.send("process/write", 3, map[string]any{"processId": "p", "chunk": "aGVsbG8K"}) // hello
	p.screenShows("got hello")
	r.send("process/resize", 4, map[string]any{"processId": "p", "size": map[string]int{"rows": 12, "cols": 60}})
	p.until("the screen has the new size", func() bool { return p.last["rows"] == 12.0 && p.last["cols"] == 60.0 })
	for page, missing := range map[string][]string{"": {"Allowed without"}, "?session=client-1": {"What happened", "Allowed without"},
		"p/client-1/1000": {"What happened", "Connections", "Programs that", "Type here", "recording"}, "p/client-1/1000/output": {"Lines that match"}} {
		status, body, _ := b.get(page)
		for _, text := range missing {
			if strings.Contains(body, text) || status != 200 {
				t.Errorf("%s has %q: %d", page, text, status)
			}
		}
	}
	p.shows("tools", `data-do="terminate"`)
	if tools := p.part("tools"); strings.Contains(tools, "take") || strings.Contains(tools, "eof") || !strings.Contains(tools, `data-signal="INT"`) {
		t.Errorf("%s", tools)
	}
	for path, want := range map[string]string{"": "red &lt;b&gt;\nhello\ngot hello", "?view=bytes": `\x1b[31mred`, "?view=raw": "\x1b[31mred\x1b[0m <b>\r\n", "?q=red": "red &lt;b&gt;"} {
		if status, body, _ := b.get("p/client-1/1000/output" + path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %q", path, status, body)
		}
	}
	if status, _, _ := b.get("p/client-1/1000/output?view=recording"); status != 404 {
		t.Errorf("a recording: %d", status)
	}
	for _, action := range []map[string]any{{"do": "take"}, {"do": "type", "text": "x"}, {"do": "eof"}, {"do": "resize", "size": map[string]int{"rows": 30, "cols": 100}}} {
		if failed := p.do(action); !strings.Contains(failed, "client's") {
			t.Errorf("%v: %q", action, failed)
		}
	}
	for _, action := range []map[string]any{{"do": "decide", "session": "client-1", "question": "q1", "kind": "approved"}, {"do": "revoke", "session": "client-1", "grant": "g1"}} {
		if failed := p.do(action); !strings.Contains(failed, "nobody is asked") {
			t.Errorf("%v: %q", action, failed)
		}
	}
	viewer, err := s.enter(s.window.ViewersLink(s.server.URL)).connect(at("v"), nil)
	if err != nil {
		t.Fatal(err)
	}
	viewer.screenShows("got hello")
	if failed := viewer.do(map[string]any{"do": "terminate"}); !strings.Contains(failed, "viewers") {
		t.Errorf("a viewer ends it: %q", failed)
	}
	if failed := p.do(map[string]any{"do": "terminate"}); failed != "" {
		t.Fatal(failed)
	}
	p.shows("facts", "was terminated on request")
	p.until("the screen says so", func() bool { return p.last["note"] == "no more output comes" })
	r.hears("process/exited")
	overview.until("its row says so", func() bool { return strings.Contains(overview.part("processes"), "was terminated on request") })
}

// A page of a server's process sends signals.
func TestASignalReachesAServersProcess(t *testing.T) {
	s, r := newServed(t)
	r.send("process/start", 2, map[string]any{"processId": "p", "argv": []string{"bash", "-c", `trap 'echo usr1' USR1; echo ready; while :; do sleep 0.05; done`}, "cwd": "/",
		"env": map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}, "tty": false})
	r.hears("result")
	p, err := s.enter(s.window.Link(s.server.URL)).connect(map[string]any{"seat": "a", "session": "client-1", "process": 1000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.screenShows("ready")
	if failed := p.do(map[string]any{"do": "signal", "signal": "made up"}); !strings.Contains(failed, "no such signal") {
		t.Errorf("%q", failed)
	}
	if failed := p.do(map[string]any{"do": "signal", "signal": "USR1"}); failed != "" {
		t.Fatal(failed)
	}
	p.screenShows("usr1")
	if failed := p.do(map[string]any{"do": "signal", "signal": "KILL"}); failed != "" {
		t.Fatal(failed)
	}
	p.shows("facts", "exited with code 137")
}
