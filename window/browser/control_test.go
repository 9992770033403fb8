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
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
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
