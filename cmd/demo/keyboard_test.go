package main

import (
	"context"
	"errors"
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
	paused bool // output waits
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
		keys.pause = func() (resume func()) {
			d.paused = true
			return func() { d.paused = false }
		}
		e := newEditor(nil, keys, func(string) {})
		go func() {
			for {
				text, err := e.ReadLine()
				switch {
				case errors.Is(err, errPassing):
					keys.ask()
				case err != nil:
					return
				default:
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
	wanted, withdraw := context.WithCancel(d.t.Context())
	a = &asked{Question: messages.Question{ID: id, Display: "rm -rf /"}, wanted: wanted, answer: make(chan messages.Decision, 1)}
	for _, kind := range kinds {
		a.Choices = append(a.Choices, messages.Choice{Kind: kind})
	}
	d.asks <- a
	synctest.Wait()
	return a, func() { withdraw(); synctest.Wait() }
}

// quiet lets time go by.
func (d *desk) quiet() { time.Sleep(time.Second); synctest.Wait() }

// answered checks the answer; an empty one is none.
func (d *desk) answered(a *asked, want messages.DecisionKind) {
	d.t.Helper()
	var got messages.Decision
	select {
	case got = <-a.answer:
	default:
	}
	if got.Kind != want {
		d.t.Errorf("%s has the answer %q, want %q; shown: %q", a.ID, got.Kind, want, d.out.String())
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

// A question takes the keyboard from the line, which is there again afterwards with its cursor. Output waits meanwhile.
func TestAQuestionTakesTheKeyboard(t *testing.T) {
	for key, want := range map[string]messages.DecisionKind{"y": messages.DecisionApproved, "a": messages.DecisionApprovedForSession,
		"p": messages.DecisionApprovedWithRule, "n": messages.DecisionDenied, "x": messages.DecisionAborted, "\x03": messages.DecisionAborted} {
		atDesk(t, func(d *desk) {
			d.press("li\x1b[D") // moves the cursor between them
			a, _ := d.ask("q1", allKinds...)
			d.press("ya") // somebody is still typing
			d.quiet()
			d.answered(a, "")
			if !d.paused || !strings.Contains(d.out.String(), "demo: Run this command?\n\nrm -rf /\n") {
				t.Errorf("%q", d.out.String())
			}
			d.press(key)
			d.quiet()
			d.answered(a, want)
			if d.paused {
				t.Error("output still waits")
			}
			shown := d.out.String()
			if after := shown[strings.LastIndex(shown, "for all of it> "):]; !strings.Contains(after, "demo> li") {
				t.Errorf("the line is not shown again: %q", after)
			}
			d.press("e-\r")
			d.entered("le-i")
			d.press("\x1b[A\r") // the arrow brings back no answer
			d.entered("le-i", "le-i")
		})
	}
}

func TestQuestionsInARow(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.press("line")
		first, _ := d.ask("q1", allKinds...)
		d.quiet()
		d.press("y")
		d.quiet()
		second, _ := d.ask("q2", allKinds...)
		d.press("y")
		d.answered(first, messages.DecisionApproved)
		d.quiet()
		d.answered(second, "")
		d.press("a")
		d.quiet()
		d.answered(second, messages.DecisionApprovedForSession)
		d.press("\r")
		d.entered("line")
	})
}

func TestQuestionIsWithdrawn(t *testing.T) {
	atDesk(t, func(d *desk) {
		d.press("line")
		a, over := d.ask("q1", allKinds...)
		d.quiet()
		over()
		d.press("y\r")
		d.answered(a, "")
		d.entered("liney")
		if !strings.Contains(d.out.String(), "nobody waits for the answer") {
			t.Errorf("%q", d.out.String())
		}
	})
}
