package window_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/record"
)

func TestAScreenIsLive(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start(`printf '\033]0;a <b>title</b>\a\033[1;31mred\033[0m\n'; while read -r x; do echo "got $x"; done`)
	p := s.enter(s.window.Link(s.server.URL)).live(process)
	p.screenShows("red")
	if p.last["title"] != "a <b>title</b>" || p.last["rows"] != 24.0 || p.last["cols"] != 80.0 || p.last["approximate"] != false {
		t.Errorf("%v", p.last)
	}
	p.shows("facts", "waits for input: a line")
	if _, err := s.session.Write(s.context(), messages.WriteStdin{Process: process.ID(), Bytes: []byte("hello\n"), UntilTaken: true}); err != nil {
		t.Fatal(err)
	}
	p.screenShows("got hello")
	if err := process.Resize(s.context(), messages.Size{Rows: 10, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	p.until("the screen has the new size", func() bool { return p.last["rows"] == 10.0 && p.last["cols"] == 40.0 })
	if _, err := process.Terminate(s.context()); err != nil {
		t.Fatal(err)
	}
	p.until("the page says that it is over", func() bool { return p.last["note"] == "no more output comes" })
	p.shows("facts", "was terminated on request")
	p.shows("timeline", "was terminated on request")
}

// While somebody watches, a program that asks its terminal where the cursor is gets the position on the screen, once.
func TestAScreenAnswersWhatItsProgramAsks(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start(`stty -icanon -echo; while :; do read -rsn1 go; printf '\033[%sH\033[6n' "$go;7"; IFS= read -rsd R at; printf '\033[20H<%q>' "$at"; done`)
	if _, err := s.session.Write(s.context(), messages.WriteStdin{Process: process.ID(), Bytes: []byte("4"), UntilTaken: true}); err != nil {
		t.Fatal(err)
	}
	until := &messages.Until{Pattern: `<.*1\\;1>|<.*1;1'>`} // nobody watches
	if _, err := s.session.Wait(s.context(), messages.Wait{NoTimeout: true, For: []messages.WaitFor{{Process: process.ID(), Until: until}}}); err != nil {
		t.Fatal(err)
	}
	b := s.enter(s.window.Link(s.server.URL))
	p, second := b.live(process), s.enter(s.window.ViewersLink(s.server.URL)).live(process)
	for _, one := range []*page{p, second} {
		one.screenShows("1;1'>")
	}
	if failed := p.do(map[string]any{"do": "take"}); failed != "" {
		t.Fatal(failed)
	}
	for _, row := range []string{"5", "3"} {
		if failed := p.do(map[string]any{"do": "type", "text": row}); failed != "" {
			t.Fatal(failed)
		}
		p.screenShows("[" + row + ";7'>") // a second answer would be the next thing that the program reads
	}
}

// A page that comes back has all of the screen again, and its keyboard.
func TestAPageThatComesBackHasLostNothing(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start(`stty -echo; echo ready; while read -r x; do echo "got $x"; done`)
	b := s.enter(s.window.Link(s.server.URL))
	first := b.live(process)
	first.screenShows("ready")
	if failed := first.do(map[string]any{"do": "take"}); failed != "" {
		t.Fatal(failed)
	}
	first.do(map[string]any{"do": "type", "text": "one\r"})
	first.send(map[string]any{"n": 3, "do": "type", "text": "two\r"}) // its answer is lost with the connection
	_ = first.socket.CloseNow()
	again := b.live(process)
	for n, text := range map[int]string{3: "two\r", 4: "three\r"} {
		if n == 3 {
			again.send(map[string]any{"n": n, "do": "type", "text": text})
		}
	}
	again.send(map[string]any{"n": 4, "do": "type", "text": "three\r"})
	again.screenShows("got three")
	if text := again.screen(); strings.Count(text, "got two") != 1 || !strings.Contains(text, "got one\ngot two\ngot three") {
		t.Errorf("%q", text)
	}
}

func TestAPersonHasTheKeyboard(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start(`while read -r x; do echo "got $x"; done`)
	ada := s.enter(s.window.Link(s.server.URL)).live(process)
	bob := s.enter(s.window.Link(s.server.URL)).live(process)
	if failed := ada.do(map[string]any{"do": "type", "text": "no"}); !strings.Contains(failed, "take the keyboard first") {
		t.Errorf("%q", failed)
	}
	if failed := ada.do(map[string]any{"do": "take"}); failed != "" {
		t.Fatal(failed)
	}
	ada.shows("tools", "You have the keyboard")
	_, err := s.session.Write(s.context(), messages.WriteStdin{Process: process.ID(), Bytes: []byte("model\n")})
	if !errors.Is(err, messages.ErrKeyboardTaken) {
		t.Errorf("a write of the model: %v", err)
	}
	for _, action := range []map[string]any{{"do": "resize", "size": map[string]int{"rows": 30, "cols": 100}}, {"do": "type", "text": "ada\r"}} {
		if failed := ada.do(action); failed != "" {
			t.Fatal(failed)
		}
	}
	ada.screenShows("got ada")
	ada.until("the size follows", func() bool { return ada.last["cols"] == 100.0 })
	if failed := bob.do(map[string]any{"do": "take"}); failed != "" {
		t.Fatal(failed)
	}
	ada.until("it is another's", func() bool { return strings.Contains(ada.part("tools"), "Take over") })
	if failed := ada.do(map[string]any{"do": "type", "text": "ada again\r"}); !strings.Contains(failed, "has the keyboard") {
		t.Errorf("%q", failed)
	}
	if failed := bob.do(map[string]any{"do": "return"}); failed != "" {
		t.Fatal(failed)
	}
	if _, err := s.session.Write(s.context(), messages.WriteStdin{Process: process.ID(), Bytes: []byte("model\n"), UntilTaken: true}); err != nil {
		t.Error(err)
	}
	bob.screenShows("got model")
	bob.do(map[string]any{"do": "eof"})
	bob.shows("facts", "exited with code 0")
}

// What a page holds is given back when the window is closed, at the latest.
func TestAKeyboardIsGivenBackAtTheEnd(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start("read -r x; exit 5")
	events, err := s.session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindKeyboardReturned}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	s.enter(s.window.Link(s.server.URL)).live(process).do(map[string]any{"do": "take"})
	s.window.Close()
	event, err := events.Next(s.context())
	if err != nil || event.(messages.KeyboardReturned).Why != messages.ReturnedByHolder {
		t.Errorf("%v, %v", event, err)
	}
}

func TestAQuestionIsAnsweredInTheWindow(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	ask := func(argv ...string) <-chan error {
		answered := make(chan error, 1)
		go func() {
			_, err := s.session.Exec(s.context(), messages.ExecCommand{Argv: argv})
			answered <- err
		}()
		return answered
	}
	if err := <-ask("touch", "nobody"); !errors.Is(err, messages.ErrRejected) {
		t.Errorf("nobody looks at the window: %v", err)
	}
	viewer := s.enter(s.window.ViewersLink(s.server.URL)).live(nil)
	viewer.shows("sessions", "running")
	if err := <-ask("touch", "a viewer"); !errors.Is(err, messages.ErrRejected) {
		t.Errorf("only a viewer looks at the window: %v", err)
	}
	p := s.enter(s.window.Link(s.server.URL)).live(nil)
	p.shows("sessions", "running") // it is seated
	for _, kind := range []messages.DecisionKind{messages.DecisionApprovedForSession, messages.DecisionDenied} {
		answered := ask("touch", "<b>"+string(kind))
		for _, one := range []*page{p, viewer} {
			one.shows("questions", "touch &#39;&lt;b&gt;"+string(kind))
		}
		questions, err := s.session.Questions(s.context())
		if err != nil || len(questions) != 1 {
			t.Fatal(questions, err)
		}
		for _, c := range questions[0].Choices {
			if !strings.Contains(p.part("questions"), `data-kind="`+string(c.Kind)+`"`) || strings.Contains(viewer.part("questions"), "<button") {
				t.Errorf("%s\n%s", p.part("questions"), viewer.part("questions"))
			}
		}
		action := map[string]any{"do": "decide", "session": s.session.ID(), "question": questions[0].ID, "kind": kind, "text": "not today"}
		if failed := viewer.do(map[string]any{"do": "decide", "session": s.session.ID(), "question": questions[0].ID, "kind": kind}); !strings.Contains(failed, "viewers") {
			t.Errorf("a viewer's answer: %q", failed)
		}
		if failed := p.do(map[string]any{"do": "decide", "session": s.session.ID(), "question": questions[0].ID, "kind": "made up"}); !strings.Contains(failed, "not one of the choices") {
			t.Errorf("%q", failed)
		}
		if failed := p.do(action); failed != "" {
			t.Fatal(failed)
		}
		err = <-answered
		if (kind == messages.DecisionDenied) != errors.Is(err, messages.ErrRejected) || kind == messages.DecisionDenied && !strings.Contains(err.Error(), "not today") {
			t.Errorf("%s: %v", kind, err)
		}
		if failed := p.do(action); !strings.Contains(failed, "answered") {
			t.Errorf("the same answer again: %q", failed)
		}
		p.until("the question is gone", func() bool { return len(p.order["questions"]) == 0 })
	}
	grants, err := s.session.Grants(s.context())
	if err != nil || len(grants) != 1 {
		t.Fatal(grants, err)
	}
	p.shows("grants", `data-grant="`+string(grants[0].ID)+`"`)
	if failed := p.do(map[string]any{"do": "revoke", "session": s.session.ID(), "grant": grants[0].ID}); failed != "" {
		t.Fatal(failed)
	}
	p.until("the grant is gone", func() bool { return len(p.order["grants"]) == 0 })
}

// A screen that cannot follow goes on with what is new, says so, and slows nobody.
func TestAFloodIsShownFromItsEnd(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start(`for i in {1..60000}; do echo "$i 0123456789"; done; echo the end; read -r x; printf '\033[2Jclear'; read -r x`)
	if _, err := s.session.Wait(s.context(), messages.Wait{NoTimeout: true, For: []messages.WaitFor{{Process: process.ID(), Until: &messages.Until{Pattern: "the end"}}}}); err != nil {
		t.Fatal(err)
	}
	p := s.enter(s.window.Link(s.server.URL)).live(process)
	p.screenShows("60000 0123456789")
	p.screenShows("the end")
	if p.last["approximate"] != true {
		t.Error("the screen does not say that it is approximate")
	}
	p.do(map[string]any{"do": "take"})
	p.do(map[string]any{"do": "type", "text": "\r"})
	p.until("it is exact after a clear", func() bool { return p.last["approximate"] == false && strings.Contains(p.screen(), "clear") })
}

func TestExecutionsAreShown(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{Executions: messages.ExecutionsReport, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly}})
	process, err := s.session.Start(s.context(), messages.ExecCommand{Argv: []string{"bash", "-c", `/bin/true; read -r x`}, TTY: true})
	if err != nil {
		t.Skip("what a command executes cannot be seen here: ", err)
	}
	s.enter(s.window.Link(s.server.URL)).live(process).shows("executions", "true</code>")
}

func TestARecordingIsDownloaded(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{Record: record.Options{Dir: t.TempDir()}})
	process := s.start("echo recorded")
	if _, err := process.Wait(s.context()); err != nil {
		t.Fatal(err)
	}
	b := s.enter(s.window.Link(s.server.URL))
	at := fmt.Sprintf("p/%s/%d", s.session.ID(), process.ID())
	ctx := s.context()
	for file := at + "/output?view=recording"; ; {
		status, body, header := b.get(file)
		if strings.Contains(body, `"x"`) { // the recorder has written the end
			if _, page, _ := b.get(at); status != 200 || !strings.Contains(page, file) || !strings.Contains(body, "recorded") || !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") {
				t.Errorf("%d, %v, %q", status, header, body)
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("%d, %q", status, body)
		}
	}
	other := newStage(t, execbus.SessionOptions{})
	unrecorded := other.start("read -r x")
	if status, _, _ := other.enter(other.window.Link(other.server.URL)).get(fmt.Sprintf("p/%s/%d/output?view=recording", other.session.ID(), unrecorded.ID())); status != 404 {
		t.Errorf("a recording that there is not: %d", status)
	}
}

// What a patch has changed is shown after it was applied, and is in no log.
func TestAnAppliedPatchIsShownWithItsDifference(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	p, err := s.enter(s.window.Link(s.server.URL)).connect(map[string]any{"seat": "a", "session": s.session.ID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	events, err := s.session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindPatchApplied}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	if _, err := s.session.ApplyPatch(s.context(), messages.ApplyPatch{Text: "*** Begin Patch\n*** Add File: <b>new\n+<script>one\n*** End Patch\n"}); err != nil {
		t.Fatal(err)
	}
	p.shows("timeline", "&#43;&lt;script&gt;one")
	event, err := events.Next(s.context())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(event); err != nil || strings.Contains(string(text), "script") || !strings.Contains(string(text), "new") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestKeptOutputIsReadAndSearched(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start(`for i in {1..9000}; do echo "line $i"; done; printf '<i>\001\377\n'`)
	for at, ended := int64(0), false; !ended; { // where the machine is slow, the exit is known before all of the output
		page, err := s.session.Read(s.context(), messages.ReadOutput{Process: process.ID(), Offset: &at, Wait: patience})
		if err != nil {
			t.Fatal(err)
		}
		ended = page.Ended
		for _, chunk := range page.Chunks {
			at = chunk.Offset + int64(len(chunk.Bytes))
		}
		ended = ended && at == page.Total
	}
	b := s.enter(s.window.Link(s.server.URL))
	at := fmt.Sprintf("p/%s/%d/output", s.session.ID(), process.ID())
	for query, want := range map[string]string{"": "line 1\nline 2\n", "?from=65536": "Bytes 65536", "?view=bytes&from=90000": `&lt;i&gt;\x01\xff`,
		"?q=line%20(77|88)$": `line 88`, "?q=(": "missing", "?view=raw": "line 9000\r\n<i>\x01\xff"} {
		status, body, header := b.get(at + query)
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, it lacks %q:\n%.2000s", query, status, want, body)
		}
		if raw := query == "?view=raw"; raw != strings.HasPrefix(header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %v", query, header)
		}
	}
	if status, body, _ := b.get("p/" + string(s.session.ID()) + "/999"); status != 404 || !strings.Contains(body, "999") {
		t.Errorf("%d %s", status, body)
	}
}
