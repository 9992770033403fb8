package browser

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/window"
)

// patience bounds each wait for what must happen.
const patience = 2 * time.Minute

// stage is a runtime with its window and a server.
type stage struct {
	t       *testing.T
	runtime *execbus.Runtime
	session *execbus.Session
	window  *window.Window
	server  *httptest.Server
	dir     string
}

func newStage(t *testing.T, options execbus.SessionOptions) *stage {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed: the window was not tried in a browser")
	}
	s := &stage{t: t, dir: t.TempDir()}
	var err error
	if s.runtime, err = execbus.Start(execbus.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.runtime.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	options.Dir = s.dir
	if s.session, err = s.runtime.OpenSession(options); err != nil {
		t.Fatal(err)
	}
	if s.window, err = window.New(s.runtime, window.Options{}); err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewUnstartedServer(s.window)
	s.server.Listener = &cuttable{Listener: s.server.Listener}
	s.server.Start()
	t.Cleanup(func() {
		s.window.Close()
		s.server.Close()
	})
	return s
}

// start starts a program on a terminal of 24 rows and 80 columns.
func (s *stage) start(argv ...string) *execbus.Process {
	s.t.Helper()
	p, err := s.session.Start(s.context(), messages.ExecCommand{Argv: argv, TTY: true, Environment: &messages.EnvironmentPolicy{
		Set: map[string]string{"TERM": "xterm-256color", "HOME": s.dir, "PS1": "$ "}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *stage) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// tab is a page of one browser. Each has a profile of its own: tabs are different people.
type tab struct {
	*stage
	ctx context.Context
}

// open opens a link in a browser of its own.
func (s *stage) open(link string, width, height int, more ...chromedp.ExecAllocatorOption) *tab {
	s.t.Helper()
	options := append(append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"), chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.WindowSize(width, height)), more...)
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	s.t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser's end
		cancel()
		end()
	})
	p := &tab{s, ctx}
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as the context of the first call
		s.t.Skip("chromium does not start:", err)
	}
	p.do(chromedp.Navigate(link), chromedp.WaitReady("main"))
	return p
}

// telephone opens a link on the screen of a telephone, which is narrower than the browser's windows can be.
func (s *stage) telephone(link string, more ...chromedp.ExecAllocatorOption) *tab {
	p := s.open(link, 500, 844, more...)
	p.do(chromedp.EmulateViewport(390, 844))
	return p
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.picture("failed")
		p.t.Fatalf("%v\nthe page has:\n%s", err, p.text("body"))
	}
}

// see waits until a part of the page has a text.
func (p *tab) see(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s shows %q", selector, text), func() bool { return strings.Contains(p.text(selector), text) })
}

func (p *tab) until(what string, condition func() bool) {
	p.t.Helper()
	for late := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			p.picture("failed")
			p.t.Fatalf("this never came true: %s\nthe page has:\n%s", what, p.text("body"))
		}
	}
}

// text is what a part of the page shows; empty if it is not there. The rows of a screen are lines.
func (p *tab) text(selector string) string {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`(e => !e ? "" : e.id === "screen" ? Array.from(e.children, c => c.textContent).join("\n") : e.innerText)(document.querySelector(%q))`, selector)))
	return text
}

// evaluate is the value of an expression in the page.
func evaluate[T any](p *tab, expression string) (value T) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// dark makes a browser prefer dark pages.
var dark = []chromedp.ExecAllocatorOption{chromedp.Flag("force-dark-mode", true), chromedp.Flag("blink-settings", "preferredColorScheme=0")}

// click clicks the first element that fits.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(selector), chromedp.Click(selector))
}

// page opens the page of a process in a tab that has been let in.
func (p *tab) page(process *execbus.Process) {
	p.t.Helper()
	p.do(chromedp.WaitVisible("#processes a"))
	base := evaluate[string](p, "document.body.dataset.base")
	p.do(chromedp.Navigate(fmt.Sprintf("%s%sp/%s/%d", p.server.URL, base, p.session.ID(), process.ID())), chromedp.WaitReady("#screen div"))
}

// picture writes what the page looks like to a file, if somebody wants to look.
func (p *tab) picture(name string) {
	dir := os.Getenv("WINDOW_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Log(err)
		return
	}
	_ = os.MkdirAll(dir, 0o755)
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(p.t.Name(), "/", "-")+"-"+name+".png"), png, 0o644); err != nil {
		p.t.Log(err)
	}
}

func (s *stage) link() string { return s.window.Link(s.server.URL) }

// cuttable is a listener whose connections can be broken, also those that have become websockets.
type cuttable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *cuttable) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

// cut breaks all connections.
func (s *stage) cut() {
	l := s.server.Listener.(*cuttable)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		conn.Close()
	}
	l.conns = nil
}
