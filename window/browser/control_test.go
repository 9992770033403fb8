package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/execserver/client"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/window"
)

// asked clicks a button that asks for a confirmation, gives the answer, and returns the question.
func (p *tab) asked(selector string, accept bool) (question string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	asked := make(chan string, 1)
	done := make(chan error, 1)
	opening := chromedp.Events(ctx, page.JavascriptDialogOpening)
	go func() {
		for dialog, err := range opening {
			if err != nil {
				done <- err
				return
			}
			asked <- dialog.Message
			done <- chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: accept})
				return err
			}))
			return
		}
		done <- errors.New("nothing was asked")
	}()
	if err := chromedp.Do(ctx, chromedp.WaitVisible(selector), chromedp.Click(selector)); err != nil {
		p.t.Fatal(err)
	}
	if err := <-done; err != nil {
		p.t.Fatal(err)
	}
	return <-asked
}

// The buttons of a process: signals, the end of its input, and its end, which asks before.
func TestAPersonControlsAProcess(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	script := `trap 'echo it is INT' INT; trap 'echo it is TERM' TERM; echo ready; while read -r x || [ $? -gt 128 ]; do :; done; echo the input has ended; trap - TERM; while :; do sleep 0.1; done`
	process := s.start("bash", "-c", script)
	p := s.open(s.link(), 1000, 800)
	p.page(process)
	p.see("#screen", "ready")
	for _, name := range []string{"INT", "TERM"} {
		p.see("#facts", "waits for input") // bash handles one while it reads
		p.click("[data-signal=" + name + "]")
		p.see("#screen", "it is "+name)
	}
	p.click("[data-signal=STOP]")
	p.see("#timeline", "SIGSTOP")
	p.click("[data-signal=CONT]")
	p.see("#timeline", "SIGCONT")
	p.click("[data-do=eof]")
	p.see("#screen", "the input has ended")
	if question := p.asked("[data-do=terminate]", false); !strings.Contains(question, "End this process") {
		t.Errorf("%q", question)
	}
	if info, err := process.Info(s.context()); err != nil || info.State != messages.StateRunning {
		t.Errorf("a person has not confirmed it: %s, %v", info.State, err)
	}
	p.asked("[data-do=terminate]", true)
	p.see("#facts", "was terminated on request")
	p.see("#notes", "No more output")
	if tools := p.text("#tools"); tools != "" {
		t.Errorf("what has ended has buttons: %q", tools)
	}
}

// KILL ends a program that ignores everything else.
func TestAPersonKillsAProcess(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start("bash", "-c", `trap '' INT TERM; echo ready; while :; do sleep 0.1; done`)
	p := s.open(s.link(), 1000, 800)
	p.page(process)
	p.see("#screen", "ready")
	p.click("[data-signal=KILL]")
	p.see("#facts", "137")
}

// The page of a process has the hosts that it talked to, and those that it was not let talk to.
func TestConnectionsAreSeen(t *testing.T) {
	need(t, "curl")
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("commands are %s here, so their connections are not known", probed.Level)
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the page") }))
	t.Cleanup(site.Close)
	at := site.Listener.Addr().String()
	s := newStage(t, execbus.SessionOptions{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly, Network: &messages.NetworkPolicy{
		Hosts: []messages.HostRule{{Host: at, Decision: messages.HostAllow}}}}})
	process := s.start("bash", "-c", "curl -s http://"+at+"/; curl -s http://blocked.example/ >/dev/null; echo done; read -r x")
	p := s.open(s.link(), 1000, 800)
	p.page(process)
	p.see("#screen", "done")
	p.see("#connections", "talked to 127.0.0.1")
	p.see("#connections", "blocked.example")
	p.picture("connections")
}

// The window of an exec-server, whose client is a runtime, has the same pages, and the same faults in none of them.
func TestAnExecServerIsSeen(t *testing.T) {
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
	remote, err := client.Dial(s.context(), "ws"+strings.TrimPrefix(door.URL, "http"), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	far, err := execbus.Start(execbus.Options{Spawner: remote})
	if err != nil {
		t.Fatal(err)
	}
	if s.session, err = far.OpenSession(execbus.SessionOptions{Dir: s.dir}); err != nil {
		t.Fatal(err)
	}
	w := window.Of(server, window.Options{})
	site := httptest.NewServer(w)
	t.Cleanup(func() {
		w.Close()
		site.Close()
		if err := errors.Join(far.Shutdown(context.Background()), remote.Close()); err != nil {
			t.Error(err)
		}
		server.Close()
		door.Close()
		if err := spawner.Close(); err != nil {
			t.Error(err)
		}
	})
	process := s.start("bash", "-c", `printf '\033[1;32mgreen\033[0m <script>alert(1)</script>\n'; read -r x; echo "got $x"; read -r x`)
	p := s.open(w.Link(site.URL), 1000, 800)
	p.see("#sessions", "client-1")
	p.see("#processes", "green")
	p.picture("overview")
	p.axe("overview")
	p.click("#processes a")
	p.see("#screen", "green <script>alert(1)</script>")
	if _, err := s.session.Write(s.context(), messages.WriteStdin{Process: process.ID(), Bytes: []byte("word\n"), UntilTaken: true}); err != nil {
		t.Fatal(err)
	}
	p.see("#screen", "got word")
	p.see("#facts", "waits for input")
	if text := p.text("body"); strings.Contains(text, "keyboard") || strings.Contains(text, "What happened") || strings.Contains(text, "End of input") {
		t.Errorf("%s", text)
	}
	p.picture("process")
	p.axe("process")
	p.narrow("process")
	p.asked("[data-do=terminate]", true)
	p.see("#facts", "was terminated on request")
	if record, err := process.Wait(s.context()); err != nil {
		t.Errorf("the client does not see the end: %+v, %v", record, err)
	}
}
