package window_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/execserver/client"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/spool"
	"github.com/execbus/execbus/window"
)

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
func newServed(t *testing.T, options execserver.Options) (*stage, *remote) {
	t.Helper()
	spawner, err := execbus.NewSpawner()
	if err != nil {
		t.Fatal(err)
	}
	server, err := execserver.NewServer(spawner, options)
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
		lines := bufio.NewScanner(fromServer)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			r.told <- lines.Text()
		}
	}()
	w := window.Of(server, window.Options{})
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
	s, r := newServed(t, execserver.Options{})
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
		"p/client-1/1000": {"What happened", "Connections", "Programs that", "Type here", "recording"}} {
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
	for path, want := range map[string]string{"": "red &lt;b&gt;\nhello\ngot hello", "?view=bytes": `\x1b[31mred`, "?view=raw": "\x1b[31mred\x1b[0m <b>\r\n", "?q=red": ">line 1</a> <code>"} {
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
	s, r := newServed(t, execserver.Options{})
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

// What a server has written to files is read and searched like the rest.
func TestAServersFilesAreRead(t *testing.T) {
	s, r := newServed(t, execserver.Options{Spool: spool.Options{Dir: filepath.Join(t.TempDir(), "output")}})
	r.send("process/start", 2, map[string]any{"processId": "p", "argv": []string{"bash", "-c", "seq 200000; read -r x"}, "cwd": "/",
		"env": map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}, "tty": false, "pipeStdin": true})
	r.hears("result")
	b := s.enter(s.window.Link(s.server.URL))
	ctx, at := s.context(), fmt.Sprintf("p/client-1/1000/output?from=%d", len(all(199_999)))
	for ; ; time.Sleep(10 * time.Millisecond) {
		if _, body, _ := b.get(at); strings.Contains(body, ">200000\n") {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("not all is printed")
		}
	}
	for path, want := range map[string]string{"": ">1\n2\n3\n", "?from=999998": ">158730\n158731\n", "?view=bytes": "0\tstdout\t1\\n\n2\tstdout\t2\\n", "?q=^(7|199999)$": "line 199999</a>", "?view=raw": "1\n2\n3\n"} {
		status, body, _ := b.get("p/client-1/1000/output" + path)
		if status != 200 || !strings.Contains(body, want) || strings.Contains(body, "not kept") || path != "" && path[1] == 'q' && !strings.Contains(body, "line 7</a>") {
			t.Errorf("%s: %d, %.500q", path, status, body)
		}
		if path == "?view=raw" && body != all(200_000) {
			t.Errorf("the file has %d bytes, or others", len(body))
		}
	}
}

// all is what seq prints up to a number.
func all(last int) (text string) {
	var b strings.Builder
	for i := range last {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// A program on a server that asks where its cursor is gets the true position, whether people see it at the server or at its client.
func TestAScreenOfAServersProcessAnswers(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	spawner, err := execbus.NewSpawner()
	if err != nil {
		t.Fatal(err)
	}
	server, err := execserver.NewServer(spawner, execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(server.Handler(""))
	link, err := client.Dial(s.context(), "ws"+strings.TrimPrefix(door.URL, "http"), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	far, err := execbus.Start(execbus.Options{Spawner: link})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(far.Shutdown(context.Background()), link.Close()); err != nil {
			t.Error(err)
		}
		server.Close()
		door.Close()
		if err := spawner.Close(); err != nil {
			t.Error(err)
		}
	})
	session, err := far.OpenSession(execbus.SessionOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	process, err := session.Start(s.context(), messages.ExecCommand{TTY: true, Argv: []string{"bash", "-c",
		`stty -icanon -echo; while :; do read -rsn1 go; printf '\033[%sH\033[6n' "$go;7"; IFS= read -rsd R at; printf '\033[20H<%q>' "$at"; done`}})
	if err != nil {
		t.Fatal(err)
	}
	asks := func(row string, want *regexp.Regexp) {
		t.Helper()
		if _, err := session.Write(s.context(), messages.WriteStdin{Process: process.ID(), Bytes: []byte(row), UntilTaken: true}); err != nil {
			t.Fatal(err)
		}
		until := &messages.Until{Pattern: want.String()}
		if _, err := session.Wait(s.context(), messages.Wait{NoTimeout: true, For: []messages.WaitFor{{Process: process.ID(), Until: until}}}); err != nil {
			t.Fatal(err)
		}
	}
	asks("2", regexp.MustCompile(`<[^<>]*1\\*;1'?>`)) // nobody watches
	for _, seen := range []struct {
		row    string
		window func() (*window.Window, error)
		hello  map[string]any
	}{
		{"4", func() (*window.Window, error) { return window.New(far, window.Options{}) }, map[string]any{"seat": "a", "session": session.ID(), "process": process.ID()}},
		{"5", func() (*window.Window, error) { return window.Of(server, window.Options{}), nil }, map[string]any{"seat": "a", "session": "client-1", "process": 1000}},
	} {
		w, err := seen.window()
		if err != nil {
			t.Fatal(err)
		}
		site := httptest.NewServer(w)
		there := &stage{t, session, w, site}
		p, err := there.enter(w.Link(site.URL)).connect(seen.hello, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.screenShows("'>") // it is the last answer
		asks(seen.row, regexp.MustCompile(`<[^<>]*`+seen.row+`\\*;7'?>`))
		p.screenShows("[" + seen.row + ";7'>")
		w.Close()
		site.Close()
	}
}

// open is a source of sessions that are never closed.
type open []printed

func (o open) Sessions() []printed          { return o }
func (open) Follow(context.Context, func()) {}

// printed is a session with a process that has printed something.
type printed struct {
	window.Session
	id    messages.SessionID
	text  string
	sizes messages.TerminalSizes
}

func (p printed) ID() messages.SessionID                                    { return p.id }
func (printed) List(context.Context) (messages.Processes, error)            { return nil, nil }
func (printed) Records(context.Context) (messages.Processes, error)         { return nil, nil }
func (printed) WatchTerminal(context.Context, messages.WatchTerminal) error { return nil }

func (p printed) Info(context.Context, messages.ProcessID) (messages.ProcessInfo, error) {
	return messages.ProcessInfo{TTY: true, Size: p.sizes[len(p.sizes)-1].Size}, nil
}

func (p printed) Read(_ context.Context, m messages.ReadOutput) (*messages.OutputPage, error) {
	page := &messages.OutputPage{Total: int64(len(p.text)), Ended: true, Sizes: p.sizes}
	if at := *m.Offset; at < page.Total {
		page.Chunks = []messages.OutputChunk{{Seq: 1, Offset: at, Bytes: []byte(p.text[at:])}}
	}
	return page, nil
}

// What a program prints after its terminal was resized is shown on a screen of that size, and what it printed before is not, also if both are
// read at once.
func TestAScreenIsResizedWhereItsTerminalWas(t *testing.T) {
	const small, large = "\x1b[9;99Hin the corner", "\x1b[9;99Hfar away"
	p := printed{id: "s", text: small + large, sizes: messages.TerminalSizes{{Size: messages.Size{Rows: 4, Cols: 20}}, {Offset: int64(len(small)), Size: messages.Size{Rows: 10, Cols: 120}}}}
	w := window.Of(open{p}, window.Options{})
	s := &stage{t, nil, w, httptest.NewServer(w)}
	t.Cleanup(func() {
		w.Close()
		s.server.Close()
	})
	page, err := s.enter(w.Link(s.server.URL)).connect(map[string]any{"seat": "a", "session": "s", "process": 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	page.until("all of it is shown", func() bool { return page.last["note"] == "no more output comes" })
	rows := strings.Split(page.screen(), "\n")
	if page.last["rows"] != 10.0 || page.last["cols"] != 120.0 || !strings.HasSuffix(rows[8], strings.Repeat(" ", 90)+"far away") {
		t.Errorf("%v\n%s", page.last, page.screen())
	}
}

// Each page has the process of its own session, and there is none of a session that is not open.
func TestAPageIsOfItsSession(t *testing.T) {
	sizes := messages.TerminalSizes{{Size: messages.Size{Rows: 4, Cols: 20}}}
	w := window.Of(open{{id: "a", text: "of a", sizes: sizes}, {id: "b", text: "of b", sizes: sizes}}, window.Options{})
	s := &stage{t, nil, w, httptest.NewServer(w)}
	t.Cleanup(func() {
		w.Close()
		s.server.Close()
	})
	b := s.enter(w.Link(s.server.URL))
	for _, id := range []string{"a", "b"} {
		if status, body, _ := b.get("p/" + id + "/1/output?view=raw"); status != 200 || body != "of "+id {
			t.Errorf("session %s: %d, %q", id, status, body)
		}
	}
	if status, body, _ := b.get("p/c/1"); status != 404 || !strings.Contains(body, "there was none of that name") {
		t.Errorf("no session: %d, %q", status, body)
	}
}
