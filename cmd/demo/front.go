package main

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// ttyState is the state of a command's terminal.
type ttyState struct {
	known   bool // false if the demo may not look
	reading bool // a program waits for a line
	hidden  bool // input is not echoed, as for a password
	raw     bool // programs get each key
}

// Typed lines go to the command in front while it reads its terminal. While it does not read, a line waits, as typed-ahead
// input does in any terminal. It waits until the command reads, or until the command has ended and the shell gets the line.

// Bounds of the watch over the terminal of the command in front.
const (
	watchPeriod = 150 * time.Millisecond
	watchPause  = 20 * time.Millisecond // between two looks, however much the command writes
	watchTries  = 15                    // failed looks before the command gets every key
	promptDelay = 500 * time.Millisecond
)

// watch looks at the terminal of a command as long as the command is in front, and tells the loop about changes.
func (h *host) watch(j *job, leader int) {
	away := j.away // a job that comes back gets another one
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
			return // an event reports its end
		} else if unknown < watchTries { // for a moment, a starting or ending process cannot be looked at
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

// say makes a job's watch look soon.
func (j *job) say() {
	select {
	case j.said <- struct{}{}:
	default:
	}
}

// looked handles a new state of the terminal of the command in front. After a line was sent to the command, older states are
// stale: they are ignored until a requested look has reported.
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

// feed gives a waiting line to the command in front, if it reads.
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

// typed returns the bytes that a terminal would send for a line.
func (l line) typed() string {
	if l.end {
		return "\x04"
	}
	return l.text + "\r"
}

// type_ gives a command input. Whether the command still reads is unknown until the next look.
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
		h.view.note(fmt.Sprintf("%q waits: [%d] is not reading now. It gets the line when it reads, or your shell does when it has ended. "+
			"Ctrl-Z puts it into the background, and your shell gets the line now.", l.text, j.id))
	}
	h.feed()
}

// next gives the shell the lines that were waiting for a command that is no longer in front.
func (h *host) next() {
	for h.front == nil && h.changing == nil && len(h.waiting) > 0 && !h.quitting {
		l := h.waiting[0]
		h.waiting = h.waiting[1:]
		if !l.end {
			h.line(l)
		}
	}
}

// reprompt shows where typed lines go.
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

// queue returns a note for the prompt if lines are waiting.
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

// asks returns the prompt of a command that reads: the incomplete line that it wrote last, if any.
func (h *host) asks(j *job) string {
	who := fmt.Sprintf("[%d] ", j.id)
	said := strings.TrimLeft(execbus.CleanLine(string(j.rest), false), " ")
	if said == "" || utf8.RuneCountInString(said) > 60 {
		return who + "reads> "
	}
	return who + said
}

// short returns the beginning of a text, in one line.
func short(text string, most int) string {
	runes := []rune(execbus.CleanLine(toMarks(strings.TrimSpace(text)), false))
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}
