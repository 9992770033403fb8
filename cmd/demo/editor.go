package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/execbus/execbus/messages"
)

// editor is the line that is being typed. What is written to it appears above that line.
type editor struct{ *term.Terminal }

const prompt = "demo> "

// interruptKey stands for Ctrl-C, which the terminal package would take for the end of the input.
const interruptKey = 0x1f

// newEditor edits lines on the terminal. interrupted is called with what stood on the line when Ctrl-C cleared it.
func newEditor(t *terminal, interrupted func(typed string)) editor {
	e := editor{term.NewTerminal(keyboard{os.Stdin, os.Stdout}, prompt)}
	e.History = &history{}
	e.AutoCompleteCallback = func(typed string, _ int, key rune) (string, int, bool) {
		if key != interruptKey {
			return "", 0, false
		}
		interrupted(typed)
		return "", 0, true
	}
	e.resize(t.size())
	return e
}

func (e editor) resize(size messages.Size) {
	size = size.OrDefault()
	_ = e.SetSize(int(size.Cols), int(size.Rows)) // the next output tells whether the terminal is gone
}

// keyboard is the terminal with Ctrl-C as an ordinary key.
type keyboard struct {
	io.Reader
	io.Writer
}

func (k keyboard) Read(p []byte) (int, error) {
	n, err := k.Reader.Read(p)
	for i, key := range p[:n] {
		switch key {
		case 0x03:
			p[i] = interruptKey
		case interruptKey: // Ctrl-_
			p[i] = 0 // means nothing
		}
	}
	return n, err
}

// history is what the arrow keys bring back, the newest last.
type history struct{ entries []string }

// historyLength bounds a history.
const historyLength = 1000

// Add implements term.History. Neither nothing nor the same again is remembered.
func (h *history) Add(entry string) {
	if entry == "" || h.Len() > 0 && h.At(0) == entry {
		return
	}
	h.entries = append(h.entries, entry)
	h.entries = h.entries[max(0, len(h.entries)-historyLength):]
}

// Len implements term.History.
func (h *history) Len() int { return len(h.entries) }

// At implements term.History.
func (h *history) At(i int) string { return h.entries[len(h.entries)-1-i] }
