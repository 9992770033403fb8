package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
}

// WINDOW_PROCESSES=1000 makes them more, and says how long the page takes for a search.
func TestAHundredProcessesAreSeenAndFound(t *testing.T) {
	count := 100
	if more, err := strconv.Atoi(os.Getenv("WINDOW_PROCESSES")); err == nil {
		count = max(count, more)
	}
	s := newStage(t, execbus.SessionOptions{MaxProcesses: count + 28})
	for i := range count - 2 {
		if _, err := s.session.Start(s.context(), messages.ExecCommand{Argv: []string{"sleep", fmt.Sprint(1000 + i)}}); err != nil {
			t.Fatal(err)
		}
	}
	s.start("bash", "-c", "read -rp 'name? ' x")
	s.start("bash", "-c", "while :; do :; done")
	p := s.open(s.link(), 1300, 900)
	p.until("all processes are listed", func() bool {
		return evaluate[int](p, "document.querySelectorAll('#processes tr').length") == count
	})
	p.see("#processes", "waits for input: a line")
	p.until("a plot is drawn", func() bool { return evaluate[int](p, "document.querySelectorAll('svg.plot').length") > 0 })
	p.picture("overview")
	began := time.Now()
	p.do(chromedp.SetValue("input[name=q]", "sleep 1042"), chromedp.Submit("input[name=q]"), chromedp.WaitVisible("#processes tr"))
	t.Logf("a search among %d processes takes %v", count, time.Since(began))
	if n := evaluate[int](p, "document.querySelectorAll('#processes tr').length"); n != 1 {
		t.Errorf("%d processes match", n)
	}
	p.see("#processes", "sleep 1042")
}

func TestAPersonEditsAFileInVim(t *testing.T) {
	need(t, "vim")
	s := newStage(t, execbus.SessionOptions{})
	file := filepath.Join(s.dir, "letter.txt")
	vim := s.start("vim", "-u", "NONE", "-N", "-c", "syntax on", file)
	p := s.open(s.link(), 1200, 900)
	p.page(vim)
	p.see("#screen", "letter.txt")
	p.click("[data-do=take]")
	p.see("#tools", "You have the keyboard")
	p.do(chromedp.Focus("#keys"), chromedp.KeyEvent("iGrüße aus dem Fenster\r<script>alert(1)</script>"))
	p.see("#screen", "<script>alert(1)</script>")
	p.picture("typing")
	p.do(chromedp.KeyEvent("\x1b:wq\r"))
	p.see("#notes", "No more output")
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "Grüße aus dem Fenster\n<script>alert(1)</script>\n" {
		t.Errorf("%v, %q", err, text)
	}
	p.picture("ended")
	if n := evaluate[int](p, "document.querySelectorAll('#screen script').length"); n != 0 {
		t.Error("output became markup")
	}
}

func TestAPersonUsesHtop(t *testing.T) {
	need(t, "htop")
	s := newStage(t, execbus.SessionOptions{})
	htop := s.start("htop")
	p := s.open(s.link(), 1300, 900)
	p.page(htop)
	p.see("#screen", "F10")
	p.click("[data-do=take]")
	p.see("#tools", "You have the keyboard")
	p.do(chromedp.Focus("#keys"), chromedp.KeyEvent("/execbus"))
	p.see("#screen", "Search: execbus")
	p.picture("htop")
	p.do(chromedp.KeyEvent("\x1b"))
	p.see("#screen", "F10") // not together: a program takes ESC and q for a key with Alt
	p.do(chromedp.KeyEvent("q"))
	p.see("#notes", "No more output")
}

// A password that a person types where nothing is shown is in no event, no output and no part of the page.
func TestAPasswordIsNowhere(t *testing.T) {
	const password = "xyzzy-Plugh42"
	s := newStage(t, execbus.SessionOptions{})
	events, err := s.session.Events(execbus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	reader := s.start("bash", "-c", `read -rsp 'password: ' x; echo; printf %s "$x" | sha256sum; read -r x`)
	watcher := s.open(s.window.ViewersLink(s.server.URL), 1000, 800)
	watcher.page(reader)
	p := s.open(s.link(), 1000, 800)
	p.page(reader)
	p.see("#facts", "a secret: echo is off")
	p.click("[data-do=take]")
	p.see("#tools", "You have the keyboard")
	p.do(chromedp.Focus("#keys"), chromedp.KeyEvent(password+"\r"))
	p.see("#screen", "  -")
	watcher.see("#screen", "  -")
	p.picture("after")
	for _, tab := range []*tab{p, watcher} {
		for _, where := range []string{"document.documentElement.outerHTML", "Array.from(document.querySelectorAll('input, textarea'), e => e.value).join()",
			"JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])"} {
			if strings.Contains(evaluate[string](tab, where), password) {
				t.Errorf("%s has the password", where)
			}
		}
	}
	p.click("[data-do=return]")
	p.until("it is given back", func() bool { return !strings.Contains(p.text("#tools"), "You have") })
	if _, err := reader.Terminate(s.context()); err != nil {
		t.Fatal(err)
	}
	for {
		event, err := events.Next(s.context())
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%s %+v", text(event), event); strings.Contains(text, password) || strings.Contains(text, password[:6]) {
			t.Errorf("an event has the password: %s", text)
		}
		if _, over := event.(messages.ExecEnded); over {
			break
		}
	}
	_ = filepath.WalkDir(s.dir, func(path string, entry os.DirEntry, _ error) error {
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), password) {
			t.Errorf("%s has the password", path)
		}
		return nil
	})
}

func text(event messages.Event) string {
	encoded, _ := json.Marshal(event)
	return string(encoded)
}

// A question that is put at a terminal and in two pages is answered once, and all see that.
func TestAQuestionIsAnsweredOnce(t *testing.T) {
	terminal, answer := make(chan messages.Question, 2), make(chan messages.Decision)
	s := newStage(t, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted},
		Approver: execbus.ApproverFunc(func(ctx context.Context, q messages.Question) (messages.Decision, error) {
			terminal <- q
			select {
			case d := <-answer:
				return d, nil
			case <-ctx.Done():
				return messages.Decision{}, ctx.Err()
			}
		})})
	p, other := s.open(s.link(), 1000, 800), s.telephone(s.window.ViewersLink(s.server.URL))
	run := func(name string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := s.session.Exec(s.context(), messages.ExecCommand{Argv: []string{"touch", name}})
			done <- err
		}()
		return done
	}
	done := run("<b>one</b>")
	asked := <-terminal
	p.see("#questions", "touch '<b>one</b>'")
	other.see("#questions", "touch '<b>one</b>'")
	for line := range strings.Lines(asked.Text()) {
		if !strings.Contains(p.text("#questions"), strings.TrimSpace(line)) {
			t.Errorf("the page lacks %q, which a terminal shows", line)
		}
	}
	p.picture("question")
	other.picture("question-telephone")
	p.click("[data-kind=approved_for_session]")
	if err := <-done; err != nil {
		t.Error(err)
	}
	other.see("#status", "answered elsewhere")
	p.see("#grants", "touch")
	p.picture("grant")
	done = run("two")
	<-terminal
	p.see("#questions", "touch two")
	answer <- messages.Decision{Kind: messages.DecisionDenied}
	if err := <-done; !errors.Is(err, messages.ErrRejected) {
		t.Error(err)
	}
	p.see("#status", "answered elsewhere")
	p.click("[data-do=revoke]")
	p.until("the grant is gone", func() bool { return p.text("#grants") == "" })
}

// Two people and one keyboard: the second takes it over, and the first is told.
func TestASecondPersonTakesOver(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	shell := s.start("bash", "--norc", "--noprofile")
	ada, bob := s.open(s.link(), 1000, 800), s.telephone(s.link())
	for _, p := range []*tab{ada, bob} {
		p.page(shell)
		p.see("#screen", "$")
	}
	ada.click("[data-do=take]")
	ada.see("#tools", "You have the keyboard")
	ada.do(chromedp.Focus("#keys"), chromedp.KeyEvent("echo from ada\r"))
	bob.see("#screen", "\nfrom ada")
	bob.see("#tools", "Take over")
	bob.click("[data-do=take]")
	bob.see("#tools", "You have the keyboard")
	ada.see("#tools", "Take over")
	bob.do(chromedp.Focus("#keys"), chromedp.KeyEvent("echo from bob\r"))
	ada.see("#screen", "\nfrom bob")
	bob.until("the terminal has the width of the telephone", func() bool {
		info, err := shell.Info(s.context())
		return err == nil && info.Size.Cols < 70
	})
	if wide := evaluate[int](bob, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		t.Errorf("the page is %d pixels wider than the telephone", wide)
	}
	bob.picture("telephone")
}

// The connection breaks while keys are typed, and nothing is lost or done twice.
func TestNothingIsLostWithAConnection(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	shell := s.start("bash", "-c", `stty -echo; echo ready; while read -r x; do echo "got $x"; done`)
	p := s.open(s.link(), 1000, 800)
	p.page(shell)
	p.see("#screen", "ready")
	p.click("[data-do=take]")
	p.see("#tools", "You have the keyboard")
	var want []string
	for i := range 20 {
		if i%5 == 4 {
			s.cut()
		}
		line := fmt.Sprintf("line %d", i)
		p.do(chromedp.Focus("#keys"), chromedp.KeyEvent(line+"\r"))
		want = append(want, "got "+line)
	}
	p.see("#screen", "got line 19")
	p.picture("reconnected")
	page, err := shell.Read(s.context(), messages.ReadOutput{Offset: new(int64)})
	if err != nil {
		t.Fatal(err)
	}
	var output string
	for _, chunk := range page.Chunks {
		output += string(chunk.Bytes)
	}
	if got := strings.ReplaceAll(output, "\r\n", "\n"); got != "ready\n"+strings.Join(want, "\n")+"\n" {
		t.Errorf("%q", got)
	}
	if p.text("#tools") == "" || !strings.Contains(p.text("#tools"), "You have the keyboard") {
		t.Error("the keyboard is lost")
	}
}

// A part of the page that changes between the two halves of a click gets the click.
func TestAClickReachesWhatChanges(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start("bash", "-c", "while echo; do sleep 0.05; done")
	p, other := s.open(s.link(), 1000, 800), s.open(s.window.ViewersLink(s.server.URL), 1000, 800)
	output := func(p *tab) string { return p.text("#processes [data-name=output]") }
	p.until("it prints", func() bool { return strings.Contains(output(p), "B/s") })
	left := func(e *input.DispatchMouseEventParams) { e.Button, e.ClickCount = input.MouseButtonLeft, 1 }
	at := evaluate[[]float64](p, "(r => [r.left + r.width / 2, r.top + r.height / 2])(document.querySelector('#processes a').getBoundingClientRect())")
	p.do(chromedp.MouseEvent(chromedp.MousePressed, at[0], at[1], left))
	for range 3 {
		before := output(other)
		other.until("it has changed", func() bool { return output(other) != before })
	}
	p.do(chromedp.MouseEvent(chromedp.MouseReleased, at[0], at[1], left))
	p.see("h1", process.ID().String()) // the link was followed
}

// Everything can be reached and done with keys, in the dark, too.
func TestAPageWorksByKeyboardAlone(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	shell := s.start("bash", "-c", `printf '\033[1;32mgreen \033[4:3munderlined\033[0m \033[44mblue\033[0m\n'; read -r x; exit 3`)
	p := s.open(s.link(), 1000, 800, dark...)
	p.do(chromedp.WaitVisible("#processes a"), chromedp.KeyEvent("/"))
	if name := evaluate[string](p, "document.activeElement.name"); name != "q" {
		t.Errorf("/ goes to %q", name)
	}
	p.page(shell)
	p.see("#screen", "green")
	var seen []string
	for range 40 {
		p.do(chromedp.KeyEvent("\t"))
		at := evaluate[string](p, "(e => e.dataset.do || e.id || e.textContent)(document.activeElement)")
		seen = append(seen, at)
		if at == "take" {
			break
		}
	}
	if seen[len(seen)-1] != "take" {
		t.Fatalf("the button is not reached: %q", seen)
	}
	p.do(chromedp.KeyEvent("\r"))
	p.see("#tools", "You have the keyboard")
	p.until("the keys have the focus", func() bool { return evaluate[string](p, "document.activeElement.id") == "keys" })
	p.picture("dark")
	p.do(chromedp.KeyEvent(" ", chromedp.KeyModifiers(kb.ModifierCtrl, kb.ModifierShift)))
	if at := evaluate[string](p, "document.activeElement.dataset.do"); at != "return" {
		t.Errorf("the way out leads to %q", at)
	}
	p.do(chromedp.Focus("#keys"), chromedp.KeyEvent("\r"))
	p.see("#facts", "exited with code 3")
}

// narrow fails if a page can be scrolled sideways.
func (p *tab) narrow(what string) {
	p.t.Helper()
	if wide := evaluate[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		p.t.Errorf("%s: the page is %d pixels wider than its window", what, wide)
	}
}

// axe finds faults of access with axe-core, if that is installed: WINDOW_AXE is the path of its axe.min.js. On a screen the contrast of what a
// program has coloured, made faint or hidden is the program's own, and is left out; that of the rest is ours.
func (p *tab) axe(what string) {
	p.t.Helper()
	path := os.Getenv("WINDOW_AXE")
	if path == "" {
		p.t.Log("axe-core was not asked (WINDOW_AXE is not set): ", what)
		return
	}
	script, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	evaluate[int](p, "window.faults = null;"+string(script)+";0")
	type fault struct {
		ID     string `json:"id"`
		Impact string `json:"impact"`
		Help   string `json:"help"`
		Nodes  []struct {
			HTML string `json:"html"`
		} `json:"nodes"`
	}
	const left = `{exclude: ['#screen [style*="color"]', '#screen [style*="background"]', '#screen .faint', '#screen .hidden'].map(s => [s])}`
	evaluate[int](p, "axe.run("+left+").then(a => axe.run(document, {rules: {'color-contrast': {enabled: false}}}).then(b => ({violations: [...a.violations, ...b.violations]}))).then(r => { window.faults = r.violations }, e => { window.faults = [{id: String(e), impact: 'serious'}] });0")
	p.until("axe-core is done", func() bool { return evaluate[bool](p, "!!window.faults") })
	for _, f := range evaluate[[]fault](p, "window.faults") {
		if f.Impact == "serious" || f.Impact == "critical" {
			p.t.Errorf("%s: %s (%s): %.600v", what, f.Help, f.ID, f.Nodes)
		}
	}
}

// All pages, by day and by night, on a desk and on a telephone: nothing is cut off, and who cannot see or point can use them.
func TestEachPageIsForEverybody(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	p := s.open(s.link(), 1200, 900)
	p.do(chromedp.WaitReady("#sessions li")) // it is seated, so questions are put
	asked := s.session
	go func() {
		_, _ = asked.Exec(context.Background(), messages.ExecCommand{Argv: []string{"touch", strings.Repeat("a-very-long-name-", 20)}})
	}()
	free, err := s.runtime.OpenSession(execbus.SessionOptions{Dir: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	s.session = free
	process := s.start("bash", "-c", `printf '\033[31mred \033[42;30mon green\033[0m %s\n' "$(printf 'x%.0s' {1..300})"; read -r `+strings.Repeat("x", 200))
	if _, err := free.ApplyPatch(s.context(), messages.ApplyPatch{Text: "*** Begin Patch\n*** Add File: new\n+" + strings.Repeat("long ", 60) + "\n*** End Patch\n"}); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() *tab{"desk": func() *tab { return s.open(s.link(), 1200, 900) }, "desk-dark": func() *tab { return s.open(s.link(), 1200, 900, dark...) },
		"telephone": func() *tab { return s.telephone(s.link()) }, "telephone-dark": func() *tab { return s.telephone(s.link(), dark...) }} {
		q := open()
		base := evaluate[string](q, "document.body.dataset.base")
		at := fmt.Sprintf("%s%sp/%s/%d", s.server.URL, base, free.ID(), process.ID())
		for _, page := range []struct{ name, url, ready string }{
			{"overview", s.server.URL + base, ".question"}, {"session", s.server.URL + base + "?session=" + string(free.ID()), "#timeline details"}, {"process", at, "#screen span"},
			{"text", at + "/output", "pre"}, {"bytes", at + "/output?view=bytes", "pre"}, {"search", at + "/output?q=x", ".hits"}, {"gone", at + "0", "main"},
		} {
			q.do(chromedp.Navigate(page.url), chromedp.WaitVisible(page.ready))
			q.narrow(name + ", " + page.name)
			q.picture(name + "-" + page.name)
			q.axe(name + ", " + page.name)
		}
	}
}
