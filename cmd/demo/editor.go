package main

import (
	"io"

	"golang.org/x/term"

	"github.com/execbus/execbus/messages"
)

// editor is the line that is being typed. What is written to it appears above that line.
type editor struct{ *term.Terminal }

const prompt = "demo> "

// newEditor edits lines that are typed on the keyboard. interrupted is called with what stood on the line when Ctrl-C
// cleared it.
func newEditor(t *terminal, k *keyboard, interrupted func(typed string)) editor {
	e := editor{term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, k.out}, k.idle)}
	k.editor = e
	e.History = &history{keyboard: k}
	e.AutoCompleteCallback = func(typed string, pos int, key rune) (string, int, bool) {
		switch key {
		case interruptKey:
			interrupted(typed)
			return "", 0, true
		case switchKey:
			line, pos := k.switched(typed, pos)
			return line, pos, true
		default:
			return "", 0, false
		}
	}
	e.resize(t.size())
	return e
}

func (e editor) resize(size messages.Size) {
	size = size.OrDefault()
	_ = e.SetSize(int(size.Cols), int(size.Rows)) // the next output tells whether the terminal is gone
}

// history is what the arrow keys bring back, the newest last.
type history struct {
	keyboard *keyboard
	entries  []string
}

// historyLength bounds a history.
const historyLength = 1000

// Add implements term.History. Neither nothing nor the same again is remembered, and no answer to a question.
func (h *history) Add(entry string) {
	if entry == "" || h.keyboard.state == explaining || h.Len() > 0 && h.At(0) == entry {
		return
	}
	h.entries = append(h.entries, entry)
	h.entries = h.entries[max(0, len(h.entries)-historyLength):]
}

// Len implements term.History.
func (h *history) Len() int { return len(h.entries) }

// At implements term.History.
func (h *history) At(i int) string { return h.entries[len(h.entries)-1-i] }
