package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// line is one line of input. The function that handles it calls done with the exit code.
type line struct {
	text string
	to   *job // the job that was reading when the line was begun; nil: none
	end  bool // the end of the input instead of a line
	done func(code int)
}

// runLines is the mode that reads lines, from a person at a terminal or from any other input.
func runLines(yield time.Duration, p *policies) int {
	t := openTerminal()
	if t == nil {
		return runScript(p)
	}
	guarded := lifeline()
	if guarded == nil {
		return guard(t)
	}
	return runInteractive(t, guarded, yield, p)
}

// runInteractive is the host at a terminal.
func runInteractive(t *terminal, guarded io.Reader, yield time.Duration, p *policies) int {
	defer t.restore()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGWINCH, syscall.SIGCONT)
	asker := newAsker(p)
	h, err := newHost(t, yield, p, asker)
	if err != nil {
		return fail(err)
	}
	asker.session = h.session
	keys := h.keyboard(asker.asks)
	e := newEditor(t, keys, func(typed string) { h.tell(func() { h.interrupt(typed) }) })
	s := newScreen(e, coloured(os.Stdout))
	s.title = smart()
	h.view = s
	if smart() {
		t.pasted = true
		s.raw([]byte(pasteOn))
	}
	if err := t.cbreak(); err != nil {
		return fail(err)
	}
	go func() { // this goroutine ends only with the guard
		_, _ = io.Copy(io.Discard, guarded)
		t.restoreOurs()
		h.tell(func() { h.quit(128 + int(syscall.SIGHUP)) })
	}()
	go h.read(e, keys)
	h.view.note("Each line is run by your shell. :help lists what else there is, :quit or Ctrl-D ends the demo.")

	return h.run(signals)
}

// keyboard makes the keyboard of a person.
func (h *host) keyboard(asks <-chan *asked) *keyboard {
	h.keys = &keyboard{chunks: typed(), asks: asks, terminal: h.terminal, out: os.Stdout, aims: make(chan aim, 1),
		aim: aim{prompt: prompt, dir: h.dir, columns: int(h.terminal.size().Cols)},
		hurry: func(j *job) {
			h.tell(func() {
				if state := j.probe.look(); state.known {
					h.looked(j, state, true)
				}
			})
		},
		submit: func(text string, j *job) { h.tell(func() { h.submitted(fromMarks(text), j) }) },
		back: func() {
			h.tell(func() {
				if h.front == nil {
					h.view.note("^Z: no command is in front.")
				}
				h.toBack(h.front)
			})
		},
		end: func() { h.tell(h.endOfInput) },
		pause: func() (resume func()) {
			s := h.view.(*screen)
			h.perform(s.leave)
			return func() {
				h.perform(func() {
					if h.terminal.pasted {
						s.raw([]byte(pasteOn))
					}
					s.back()
				})
			}
		},
	}
	return h.keys
}

// endOfInput handles Ctrl-D on an empty line: it ends the input of the command that reads, or else the demo.
func (h *host) endOfInput() {
	switch j := h.front; {
	case j == nil:
		h.quit(0)
	default:
		h.waiting = append(h.waiting, line{end: true, done: func(int) {}})
		h.feed()
	}
}

// read reads lines until the terminal is gone.
func (h *host) read(e editor, keys *keyboard) {
	for {
		text, err := e.ReadLine()
		to := keys.lineTo
		keys.lineTo = nil
		switch {
		case errors.Is(err, errPassing) && keys.asked != nil:
			keys.ask()
		case errors.Is(err, errPassing):
			keys.through()
		case err != nil:
			h.tell(func() { h.quit(0) })
			return
		default:
			h.lines <- line{text: fromMarks(text), to: to, done: func(int) {}}
		}
	}
}

// smart reports whether the terminal understands escape sequences.
func smart() bool { return os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" }

// runScript runs the lines of the input one after the other and returns the exit code of the last.
func runScript(p *policies) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	h, err := newHost(nil, 0, p, nil)
	if err != nil {
		return fail(err)
	}
	h.view = script{}
	go func() {
		code, err := h.runAll(os.Stdin)
		h.tell(func() {
			if err != nil {
				code = fail(fmt.Errorf("cannot read standard input: %w", err))
			}
			h.quit(code)
		})
	}()
	return h.run(signals)
}

// runAll gives the host one line after the other.
func (h *host) runAll(input io.Reader) (code int, err error) {
	reader := bufio.NewReader(input)
	for {
		text, err := reader.ReadString('\n')
		if text != "" {
			codes := make(chan int, 1)
			h.lines <- line{text: text, done: func(code int) {
				if !h.quitting {
					h.code = code
				}
				codes <- code
			}}
			code = <-codes
		}
		if errors.Is(err, io.EOF) {
			return code, nil
		}
		if err != nil {
			return code, err
		}
	}
}
