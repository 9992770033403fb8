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

// line is one line of input. Whoever handles it calls done with its exit code.
type line struct {
	text string
	done func(code int)
}

// runLines is the mode that reads lines: from a person at a terminal, or from anything else.
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
	keys := &keyboard{chunks: typed(), asks: asker.asks, out: os.Stdout, idle: prompt}
	e := newEditor(t, keys, func(typed string) { h.tell(func() { h.interrupt(typed) }) })
	h.view = newScreen(e, coloured(os.Stdout))
	if err := t.cbreak(); err != nil {
		return fail(err)
	}
	go func() { // ends only with the guard
		_, _ = io.Copy(io.Discard, guarded)
		t.restoreOurs()
		h.tell(func() { h.quit(128 + int(syscall.SIGHUP)) })
	}()
	go func() {
		for {
			switch text, err := e.ReadLine(); {
			case err != nil: // Ctrl-D, or the terminal is gone
				h.tell(func() { h.quit(0) })
				return
			case !keys.explained(text):
				h.lines <- line{text, func(int) {}}
			}
		}
	}()
	if p.sandbox.Confined() {
		h.view.note(cannotConfine)
	}
	h.view.note("Each line is run by your shell. :help lists what else there is, :quit or Ctrl-D ends the demo.")
	return h.run(signals)
}

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
			h.lines <- line{text, func(code int) {
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
