package main

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// ttyState is how a command's terminal is set up.
type ttyState struct {
	known   bool // false: nobody may look
	reading bool // a program waits for a line
	hidden  bool // what is typed is not shown, as for a password
	raw     bool // programs get each key
}

// What is typed goes to the command in front while that reads its terminal. A line that comes while it does not waits, as
// what is typed ahead does in any terminal: until the command reads, or until it has ended and the shell may have the line.

// The watch over the terminal of the command in front.
const (
	watchPeriod = 150 * time.Millisecond
	watchPause  = 20 * time.Millisecond // between two looks, however much the command says
	watchTries  = 15                    // before the command gets every key because nobody may look
	promptDelay = 500 * time.Millisecond
)

// watch looks at the terminal of the command in front as long as it is that, and tells the loop what has changed.
func (h *host) watch(j *job, leader int) {
	away := j.away // another one if it comes back
	var p *probe
	var last ttyState
	unknown := 0
	for told := false; ; {
		if p == nil {
			if p = newProbe(leader); p != nil {
				h.tell(func() { j.probe = p; h.reprompt() })
			}
		}
		state := ttyState{}
		if p != nil {
			state = p.look()
		}
		if state.known {
			unknown = 0
		} else if unknown++; !living(leader) {
			return // its end is told by an event
		} else if unknown < watchTries { // one that begins or ends lets nobody look for a moment
			select {
			case <-away:
				return
			case <-time.After(watchPause):
			}
			continue
		}
		asked := false
		select {
		case <-j.stale:
			asked = true
		default:
		}
		if !told || asked || state != last {
			h.tell(func() { h.looked(j, state, asked) })
			told, last = true, state
		}
		if !state.known {
			return // it gets every key
		}
		select {
		case <-away:
			return
		case <-time.After(watchPause):
		}
		select {
		case <-away:
			return
		case <-j.said:
		case <-time.After(watchPeriod):
		}
	}
}

// say has a job's watch look soon.
func (j *job) say() {
	select {
	case j.said <- struct{}{}:
	default:
	}
}

// looked takes a new state of the terminal of the command in front. What was seen before a line went to the command says
// nothing about it, unless the look was asked for.
func (h *host) looked(j *job, state ttyState, asked bool) {
	if j != h.front || j.fed && !asked {
		return
	}
	j.fed = false
	j.state = state
	switch {
	case !state.known || state.raw:
		h.attach(j)
	case state.hidden && state.reading:
		h.pass(j, false)
	case !state.hidden && h.passing != nil && !h.passing.sticky:
		h.endPass("")
	}
	h.feed()
	h.reprompt()
}

// feed gives a line that waits to the command in front, if that reads.
func (h *host) feed() {
	j := h.front
	if j == nil || !j.state.reading || j.state.hidden || h.passing != nil || len(h.waiting) == 0 {
		return
	}
	l := h.waiting[0]
	h.waiting = h.waiting[1:]
	h.type_(j, l.typed())
	l.done(0)
}

// typed is what a terminal would send for a line.
func (l line) typed() string {
	if l.end {
		return "\x04"
	}
	return l.text + "\r"
}

// type_ gives a command input. Until it has been looked at again nobody knows whether it reads.
func (h *host) type_(j *job, text string) {
	j.fed, j.state.reading = true, false
	go func() {
		err := h.write(j, []byte(text))
		h.tell(func() {
			if err != nil {
				h.view.fail(err)
			}
			select {
			case j.stale <- struct{}{}:
			default:
			}
			j.say()
		})
	}()
}

func (h *host) write(j *job, p []byte) error {
	_, err := h.session.Write(context.Background(), messages.WriteStdin{Process: j.id, Bytes: p, UntilTaken: true, Patience: new(verbTime)})
	return err
}

// wait keeps a line for later.
func (h *host) wait(l line) {
	h.waiting = append(h.waiting, l)
	if j := h.front; j != nil && j.id != 0 && time.Since(j.began) > promptDelay {
		h.view.note(fmt.Sprintf("%q waits: [%d] does not read now. It gets the line when it does, or your shell when it has ended. "+
			"Ctrl-Z puts it into the background, and your shell gets the line now.", l.text, j.id))
	}
	h.feed()
}

// next gives the shell the lines that have waited for a command that is not in front any more.
func (h *host) next() {
	for h.front == nil && h.changing == nil && len(h.waiting) > 0 && !h.quitting {
		l := h.waiting[0]
		h.waiting = h.waiting[1:]
		if !l.end {
			h.line(l)
		}
	}
}

// reprompt shows who gets what is typed.
func (h *host) reprompt() {
	if h.keys == nil || h.passing != nil {
		return
	}
	a := aim{prompt: prompt, job: h.front, dir: h.dir, columns: int(h.terminal.size().Cols)}
	if j := h.front; j != nil && j.id != 0 {
		a.probe = j.probe
		switch since := time.Since(j.began); {
		case j.state.reading:
			a.prompt, a.reads = h.asks(j), true
		case since > promptDelay:
			a.prompt = fmt.Sprintf("[%d] %s, %v%s> ", j.id, short(j.script, 30), since.Round(time.Second), h.queue())
		}
	}
	if a != h.shown {
		h.shown = a
		h.keys.point(a)
	}
}

// queue says that lines wait.
func (h *host) queue() string {
	switch n := len(h.waiting); n {
	case 0:
		return ""
	case 1:
		return ", a line waits (Ctrl-Z runs it)"
	default:
		return fmt.Sprintf(", %d lines wait (Ctrl-Z runs them)", n)
	}
}

// asks is the prompt of a command that reads: what it has said last, if that was no whole line.
func (h *host) asks(j *job) string {
	who := fmt.Sprintf("[%d] ", j.id)
	said := strings.TrimLeft(clean(string(j.rest), false), " ")
	if said == "" || utf8.RuneCountInString(said) > 60 {
		return who + "reads> "
	}
	return who + said
}

// short is the beginning of a text, in one line.
func short(text string, most int) string {
	runes := []rune(clean(toMarks(strings.TrimSpace(text)), false))
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}
