package window_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/window"
)

// patience bounds each wait for what must happen.
const patience = time.Minute

func TestMain(m *testing.M) {
	os.Setenv("HOME", "/proc/does/not/exist")
	dir, err := os.MkdirTemp("", "window-")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", dir)
	goleak.VerifyTestMain(tidy{m})
}

// tidy shuts the shared runtime down before goroutines are counted: each warden takes long to start under the race detector.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	code := m.M.Run()
	if err := shared().Shutdown(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	http.DefaultClient.CloseIdleConnections()
	if err := os.RemoveAll(os.Getenv("XDG_STATE_HOME")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var shared = sync.OnceValue(func() *execbus.Runtime {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		panic(err)
	}
	return rt
})

// stage is a window with a server and a session.
type stage struct {
	t       *testing.T
	session *execbus.Session
	window  *window.Window
	server  *httptest.Server
}

func newStage(t *testing.T, options execbus.SessionOptions) *stage {
	t.Helper()
	options.Dir = t.TempDir()
	session, err := shared().OpenSession(options)
	if err != nil {
		t.Fatal(err)
	}
	w, err := window.New(shared(), window.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t, session, w, httptest.NewServer(w)}
	t.Cleanup(func() {
		w.Close()
		s.server.Close()
		if err := session.Close(s.context()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stage) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// start starts a script on a terminal.
func (s *stage) start(script string) *execbus.Process {
	s.t.Helper()
	p, err := s.session.Start(s.context(), messages.ExecCommand{Argv: []string{"bash", "-c", script}, TTY: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// browser is a client with a cookie.
type browser struct {
	*stage
	client *http.Client
	base   string // the URL of the overview
}

// enter opens a link as a browser does.
func (s *stage) enter(link string) *browser {
	s.t.Helper()
	jar, _ := cookiejar.New(nil)
	b := &browser{s, &http.Client{Jar: jar, Transport: &http.Transport{}}, ""}
	s.t.Cleanup(b.client.CloseIdleConnections)
	response, err := b.client.Get(link)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		s.t.Fatalf("the link is answered with %s", response.Status)
	}
	b.base = response.Request.URL.String()
	return b
}

func (b *browser) get(path string) (status int, body string, header http.Header) {
	b.t.Helper()
	response, err := b.client.Get(b.base + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

func (b *browser) cookie() *http.Cookie {
	b.t.Helper()
	at, _ := url.Parse(b.base)
	cookies := b.client.Jar.Cookies(at)
	if len(cookies) != 1 {
		b.t.Fatalf("%d cookies", len(cookies))
	}
	return cookies[0]
}

// page is a live page, with all that it shows.
type page struct {
	*browser
	socket *websocket.Conn
	number int
	blocks map[string]map[string]string
	order  map[string][]string
	rows   map[string]string
	last   map[string]any // screen
	errors []string
	done   int
}

// live opens the connection of a page; nil for the overview.
func (b *browser) live(process *execbus.Process) *page {
	b.t.Helper()
	p, err := b.dial(process, "seat", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *browser) dial(process *execbus.Process, seat string, header http.Header) (*page, error) {
	hello := map[string]any{"seat": seat}
	if process != nil {
		hello["session"], hello["process"] = b.session.ID(), process.ID()
	}
	return b.connect(hello, header)
}

func (b *browser) connect(hello map[string]any, header http.Header) (*page, error) {
	socket, response, err := websocket.Dial(b.context(), b.base+"live", &websocket.DialOptions{HTTPClient: b.client, HTTPHeader: merged(header, "Origin", b.server.URL)})
	if response != nil && response.Body != nil {
		response.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	socket.SetReadLimit(16 << 20)
	b.t.Cleanup(func() { _ = socket.CloseNow() })
	p := &page{browser: b, socket: socket, blocks: map[string]map[string]string{}, order: map[string][]string{}, rows: map[string]string{}}
	p.send(hello)
	return p, nil
}

func merged(header http.Header, name, value string) http.Header {
	all := header.Clone()
	if all == nil {
		all = http.Header{}
	}
	if all.Get(name) == "" {
		all.Set(name, value)
	}
	return all
}

func (p *page) send(message any) {
	p.t.Helper()
	text, _ := json.Marshal(message)
	if err := p.socket.Write(p.context(), websocket.MessageText, text); err != nil {
		p.t.Fatal(err)
	}
}

// do sends an action and returns how it was answered.
func (p *page) do(action map[string]any) string {
	p.t.Helper()
	p.number++
	action["n"] = p.number
	p.send(action)
	p.until("the action is answered", func() bool { return p.done == p.number })
	return p.errors[len(p.errors)-1]
}

// read takes one message of the server.
func (p *page) read() error {
	_, text, err := p.socket.Read(p.context())
	if err != nil {
		return err
	}
	var m struct {
		Done   int
		Error  string
		Blocks map[string]struct {
			Set   map[string]string
			Order []string
		}
		Screen map[string]any
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	if m.Done > 0 || m.Error != "" {
		p.done, p.errors = m.Done, append(p.errors, m.Error)
	}
	for name, change := range m.Blocks {
		if p.blocks[name] == nil {
			p.blocks[name] = map[string]string{}
		}
		for id, html := range change.Set {
			p.blocks[name][id] = html
		}
		if change.Order != nil {
			p.order[name] = change.Order
		}
	}
	if m.Screen != nil {
		p.last = m.Screen
		for y, row := range m.Screen["set"].(map[string]any) {
			line := ""
			for _, span := range row.([]any) {
				line += span.([]any)[0].(string)
			}
			p.rows[y] = line
		}
	}
	return nil
}

func (p *page) until(what string, condition func() bool) {
	p.t.Helper()
	for late := time.Now().Add(patience); !condition(); {
		if time.Now().After(late) {
			p.t.Fatalf("this never came true: %s\nthe page has %q\nthe screen has %q", what, p.all(), p.screen())
		}
		if err := p.read(); err != nil {
			p.t.Fatalf("%s: %v\nthe page has %q\nthe screen has %q", what, err, p.all(), p.screen())
		}
	}
}

// shows waits until a part of the page has a text.
func (p *page) shows(name, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s shows %q", name, text), func() bool { return strings.Contains(p.part(name), text) })
}

// screenShows waits until the screen has a text.
func (p *page) screenShows(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("the screen shows %q", text), func() bool { return strings.Contains(p.screen(), text) })
}

func (p *page) part(name string) (text string) {
	for _, id := range p.order[name] {
		text += p.blocks[name][id] + "\n"
	}
	return text
}

func (p *page) all() (text string) {
	for name := range p.blocks {
		text += p.part(name)
	}
	return text
}

func (p *page) screen() (text string) {
	for y := range 200 {
		if row, ok := p.rows[fmt.Sprint(y)]; ok {
			text += row + "\n"
		}
	}
	return text
}
