package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/execbus/execbus/messages"
)

// passage is a period in which every key goes to a command, and its output goes to the terminal unchanged.
type passage struct {
	job    *job
	sticky bool // it lasts until the command ends or Ctrl-] is typed; otherwise only until the terminal echoes again
	began  bool // the line editor has released the terminal
	last   byte // the last byte that was shown
}

// leaveKey is Ctrl-], which leaves a command that gets every key.
const leaveKey = 0x1d

// Sequences of terminals.
const (
	pasteOn, pasteOff = "\x1b[?2004h", "\x1b[?2004l"
	altOn, altOff     = "\x1b[?1049h", "\x1b[?1049l"
	// usual undoes what full-screen programs do: scroll region, mouse, keypad, cursor, colours.
	usual = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1l\x1b>\x1b[?25h\x1b[0m"
)

// attach gives a command every key until it ends.
func (h *host) attach(j *job) { h.pass(j, true) }

func (h *host) pass(j *job, sticky bool) {
	if h.passing != nil && h.passing.job == j {
		if sticky && !h.passing.sticky {
			h.passing.sticky = true
			if h.passing.began {
				h.tellWayBack(j)
			}
		}
		return
	}
	p := &passage{job: j, sticky: sticky}
	h.passing, h.shown = p, aim{}
	h.keys.point(aim{pass: &keyPassage{
		to:    func(keys []byte) { h.tell(func() { h.pressed(p, keys) }) },
		begin: func(ahead string) { h.tell(func() { h.beginPass(p, ahead) }) },
		leave: func() { h.tell(func() { h.leavePass(p) }) },
	}})
}

// pressed passes keys on, in their order.
func (h *host) pressed(p *passage, keys []byte) {
	if h.passing != p {
		return
	}
	select {
	case p.job.input <- keys:
	default:
		h.view.note(fmt.Sprintf("[%d] does not read its input", p.job.id))
	}
}

// typist writes typed keys to a job until the job is over.
func (h *host) typist(j *job, away <-chan struct{}) {
	for {
		select {
		case keys := <-j.input:
			if h.write(j, keys) != nil {
				return // it has ended
			}
		case <-away:
			return
		}
	}
}

// beginPass runs when the line editor has released the terminal. ahead is the text that was typed but not entered.
func (h *host) beginPass(p *passage, ahead string) {
	if h.passing != p {
		return
	}
	p.began = true
	j := p.job
	s := h.view.(*screen)
	if p.sticky {
		h.tellWayBack(j)
	} else {
		s.write(s.paint(dim, fmt.Sprintf("[%d] gets what you type, and it is not shown:", j.id)) + "\n")
	}
	s.leave()
	_ = h.terminal.raw()
	if h.terminal.pasted {
		s.raw([]byte(pasteOff)) // programs that want the marks turn them on
	}
	if j.redraw {
		h.redraw(j)
	}
	h.passOn(p, j.rest)
	j.rest = nil
	for _, l := range slices.Backward(h.waiting) { // typed ahead
		ahead = l.typed() + ahead
		l.done(0)
	}
	h.waiting = nil
	if ahead != "" {
		h.pressed(p, []byte(ahead))
	}
}

func (h *host) tellWayBack(j *job) {
	s := h.view.(*screen)
	s.write(s.paint(dim, fmt.Sprintf("[%d] gets every key. Ctrl-] brings you back here.", j.id)) + "\n")
	if s.title {
		s.raw(fmt.Appendf(nil, "\x1b[22;2t\x1b]2;[%d] %s - Ctrl-] goes back\a", j.id, short(j.script, 40)))
	}
}

// passOn shows the output of a command unchanged.
func (h *host) passOn(p *passage, text []byte) {
	if len(text) > 0 {
		p.last = text[len(text)-1]
		h.view.(*screen).raw(text)
	}
}

// leavePass is Ctrl-]: the command goes on in the background.
func (h *host) leavePass(p *passage) {
	if h.passing == p {
		h.toBack(p.job)
	}
}

// endPass gives the terminal back to the line editor.
func (h *host) endPass(note string) {
	p := h.passing
	if p == nil {
		return
	}
	h.passing = nil
	s := h.view.(*screen)
	if p.began {
		if p.job.alt {
			s.raw([]byte("\x1b[r" + altOff))
		} else if p.last != '\n' && p.last != 0 {
			s.raw([]byte("\r\n"))
		}
		if p.sticky && s.title {
			s.raw([]byte(usual + "\x1b[23;2t"))
		}
		if h.terminal.pasted {
			s.raw([]byte(pasteOn))
		}
		_ = h.terminal.cbreak()
		s.back()
	}
	if note != "" {
		h.view.note(note)
	}
	h.reprompt()
}

// redraw makes a full-screen program draw everything again, by changing the size of its window.
func (h *host) redraw(j *job) {
	j.redraw = false
	if !j.alt {
		return
	}
	h.view.(*screen).raw([]byte(altOn))
	size, id := h.terminal.size(), j.id
	go func() {
		smaller := messages.Size{Rows: max(size.Rows-1, 1), Cols: size.Cols}
		_ = h.session.Resize(context.Background(), messages.Resize{Process: id, Size: smaller})
		_ = h.session.Resize(context.Background(), messages.Resize{Process: id, Size: size})
	}()
}

// alternate looks for switches to the alternate screen and back, which full-screen programs use. A sequence may arrive in
// pieces.
func (j *job) alternate(p []byte) (entered bool) {
	text := append(j.tail, p...)
	for _, mode := range []string{"1049", "1047", "47"} {
		on, off := bytes.LastIndex(text, []byte("\x1b[?"+mode+"h")), bytes.LastIndex(text, []byte("\x1b[?"+mode+"l"))
		switch {
		case on > off:
			entered, j.alt = !j.alt, true
		case off > on:
			j.alt = false
		}
	}
	j.tail = append([]byte(nil), text[max(0, len(text)-len("\x1b[?1049h")+1):]...)
	return entered
}

// foreground is the verb that attaches a job.
func foreground(h *host, arguments string) (question, error) {
	id, rest, err := target(arguments)
	if err != nil {
		return nil, err
	}
	if rest != "" {
		return nil, badUsage(fmt.Sprintf("%q is too much", rest))
	}
	if h.terminal == nil {
		return nil, badUsage("there is no terminal to attach it to")
	}
	for _, j := range h.jobs {
		if j.id == id {
			h.toBack(h.front)
			h.front, j.background, j.redraw = j, false, true
			j.away = make(chan struct{})
			go h.typist(j, j.away)
			h.attach(j)
			return nil, nil
		}
	}
	return nil, badUsage(fmt.Sprintf("%d does not run; :ps lists what does", id))
}

// toTerminal writes bytes to the terminal unchanged. If the terminal is gone, SIGHUP ends this process.
func toTerminal(p []byte) { _, _ = os.Stdout.Write(p) }
