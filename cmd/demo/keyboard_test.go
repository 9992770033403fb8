package main

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/messages"
)

// desk is a keyboard with a line editor but without a terminal, in a bubble of synctest.
type desk struct {
	t      *testing.T
	chunks chan []byte
	asks   chan *asked
	out    shown
	lines  []string
}

// shown is the text that the editor has written.
type shown struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// atDesk runs a test with a desk.
func atDesk(t *testing.T, test func(d *desk)) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, chunks: make(chan []byte), asks: make(chan *asked)}
		keys := &keyboard{chunks: d.chunks, asks: d.asks, out: &d.out, aim: aim{prompt: prompt, columns: 80}}
		e := newEditor(nil, keys, func(string) {})
		go func() {
			for {
				text, err := e.ReadLine()
				if err != nil {
					return
				}
				if !keys.explained(text) {
					d.lines = append(d.lines, text)
				}
			}
		}()
		defer close(d.chunks)
		test(d)
	})
}

// press sends keys, one at a time.
func (d *desk) press(keys string) {
	for _, key := range []byte(keys) {
		d.paste(string(key))
	}
}

// paste sends keys at once.
func (d *desk) paste(keys string) {
	d.chunks <- []byte(keys)
	synctest.Wait()
}

// ask puts a question. The returned function withdraws it.
func (d *desk) ask(id messages.QuestionID, kinds ...messages.DecisionKind) (a *asked, over func()) {
	done := make(chan struct{})
	a = &asked{Question: messages.Question{ID: id, Display: "rm -rf /", Amendment: []string{"rm"}}, over: done,
		answer: make(chan messages.Decision, 1)}
	for _, kind := range kinds {
		a.Choices = append(a.Choices, messages.Choice{Kind: kind})
	}
	d.asks <- a
	synctest.Wait()
	return a, func() { close(done); synctest.Wait() }
}

// quiet lets time go by.
func (d *desk) quiet(long time.Duration) { time.Sleep(long); synctest.Wait() }

// unanswered checks that there is no answer.
func (d *desk) unanswered(a *asked, after string) {
	d.t.Helper()
	select {
	case answer := <-a.answer:
		d.t.Errorf("%s has been answered after %s: %+v", a.ID, after, answer)
	default:
	}
}

func (d *desk) answered(a *asked, want messages.Decision) {
	d.t.Helper()
	select {
	case answer := <-a.answer:
		if answer.Kind != want.Kind || answer.Rejection != want.Rejection {
			d.t.Errorf("%s has the answer %+v, want %+v", a.ID, answer, want)
		}
	default:
		d.t.Errorf("%s has no answer, want %+v; shown: %q", a.ID, want, d.out.String())
	}
}

// entered checks which lines have been entered.
func (d *desk) entered(want ...string) {
	d.t.Helper()
	if !slices.Equal(d.lines, want) {
		d.t.Errorf("entered %q, want %q", d.lines, want)
	}
}

var allKinds = []messages.DecisionKind{messages.DecisionApproved, messages.DecisionApprovedForSession, messages.DecisionApprovedWithRule, messages.DecisionDenied,
	messages.DecisionAborted}

// A question comes while somebody types. The keys that follow at once are not its answer.
func TestWhatWasBeingTypedIsNoAnswer(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.press("echo ")
		a, _ := d.ask("q1", allKinds...)
		d.press("yap")
		d.quiet(quietTime - time.Millisecond)
		d.press("y")
		d.quiet(quietTime - time.Millisecond)
		d.unanswered(a, "keys for the line")
		d.press("\rls")
		d.entered("echo yapy")
		if strings.Contains(d.out.String(), "q1? [") {
			t.Errorf("the question took the keyboard from who was typing: %q", d.out.String())
		}
		d.quiet(quietTime)
		if !strings.Contains(d.out.String(), "q1? [y/a/p/n/x, ? shows all of it] ") {
			t.Errorf("the question does not have the keyboard: %q", d.out.String())
		}
		d.press("y")
		d.answered(a, messages.Decision{Kind: messages.DecisionApproved})
		d.press("\r")
		d.entered("echo yapy", "ls")
	})
}

func TestKeysThatAnswer(t *testing.T) {
	for keys, want := range map[string]messages.Decision{
		"y": {Kind: messages.DecisionApproved}, "a": {Kind: messages.DecisionApprovedForSession}, "p": {Kind: messages.DecisionApprovedWithRule},
		"x": {Kind: messages.DecisionAborted}, "\x03": {Kind: messages.DecisionAborted}, "n\r": {Kind: messages.DecisionDenied},
		"nnot y\r": {Kind: messages.DecisionDenied, Rejection: "not y"}, "nnot\x03": {Kind: messages.DecisionAborted},
		"zy": {Kind: messages.DecisionApproved},
	} {
		atDesk(t, func(d *desk) {
			d.press("li\x1b[D") // moves the cursor between them
			a, _ := d.ask("q1", allKinds...)
			d.quiet(quietTime)
			d.press(keys)
			d.answered(a, want)
			d.press("e-\r")
			d.entered("le-i")
			d.press("\x1b[A\r") // the arrow brings back no answer
			d.entered("le-i", "le-i")
		})
	}
}

func TestKeysThatDoNotAnswer(t *testing.T) {
	for _, keys := range []string{"yes\r", "\x1b[A", "\r", "Y", "yy", "\x04", "\x00", " ", "q", "\u0443", "a", "p", "\x1e", "\x1f"} {
		atDesk(t, func(d *desk) {
			a, _ := d.ask("q1", messages.DecisionApproved, messages.DecisionDenied)
			d.quiet(quietTime)
			d.paste(keys)
			d.unanswered(a, keys)
			if n := strings.Count(d.out.String(), "q1: rm -rf /\r\n"); n != 1 {
				t.Errorf("%q: the question was repeated %d times", keys, n)
			}
			d.press("n") // the question still waits
			d.press("no\r")
			d.answered(a, messages.Decision{Kind: messages.DecisionDenied, Rejection: "no"})
			d.entered()
		})
	}
}

// Ctrl-C answers a question as soon as it is shown: a rejection by accident does no harm.
func TestCtrlCAnswersAtOnce(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.press("line")
		a, _ := d.ask("q1", allKinds...)
		d.press("\x03")
		d.answered(a, messages.Decision{Kind: messages.DecisionAborted})
		d.press("\r")
		d.entered("line")
	})
}

// A second question does not take the key that was meant for the first.
func TestQuestionsInARow(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.press("line")
		first, _ := d.ask("q1", allKinds...)
		d.quiet(quietTime)
		d.press("y")
		second, _ := d.ask("q2", allKinds...)
		d.press("y")
		d.answered(first, messages.Decision{Kind: messages.DecisionApproved})
		d.unanswered(second, "a key for the line")
		d.quiet(quietTime)
		d.press("a")
		d.answered(second, messages.Decision{Kind: messages.DecisionApprovedForSession})
		d.press("\r")
		d.entered("liney")
	})
}

func TestQuestionIsWithdrawn(t *testing.T) {
	for name, keys := range map[string]string{"while it chooses": "", "while it explains": "nbecause"} {
		atDesk(t, func(d *desk) {
			d.press("line")
			a, over := d.ask("q1", allKinds...)
			d.quiet(quietTime)
			d.press(keys)
			over()
			d.press("y\r")
			d.unanswered(a, name)
			d.entered("liney")
			if !strings.Contains(d.out.String(), "nobody waits for the answer") {
				t.Errorf("%s: %q", name, d.out.String())
			}
		})
	}
}
