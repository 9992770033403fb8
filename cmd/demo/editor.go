package main

import (
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/execbus/execbus/messages"
)

// editor is the line that is being typed. What is written to it appears above that line.
type editor struct{ *term.Terminal }

const prompt = "demo> "

// newEditor returns an editor for lines typed on the keyboard. When Ctrl-C clears the line, interrupted is called with the
// text that was on it.
func newEditor(t *terminal, k *keyboard, interrupted func(typed string)) editor {
	e := editor{term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, k.out}, k.aim.prompt)}
	k.editor = e
	past := &history{}
	e.History = past
	e.AutoCompleteCallback = func(typed string, pos int, key rune) (string, int, bool) {
		if typed == "" {
			k.lineTo = nil
			if k.aim.reads {
				k.lineTo = k.aim.job
			}
		}
		if key != searchKey {
			past.sought = nil
		}
		switch key {
		case interruptKey:
			interrupted(typed)
			return "", 0, true
		case switchKey:
			line, pos := k.switched(typed, pos)
			return line, pos, true
		case searchKey:
			line, found := past.search(typed)
			return line, utf8.RuneCountInString(line), found
		}
		return k.special(typed, pos, key)
	}
	e.resize(t.size())
	return e
}

// Keys that the line handles itself.
const (
	searchKey     = 0x12 // Ctrl-R
	backgroundKey = 0x1a // Ctrl-Z
	completeKey   = '\t'
)

// special handles the keys that have a meaning on the host's line.
func (k *keyboard) special(typed string, pos int, key rune) (string, int, bool) {
	switch key {
	case submitKey:
		k.submit(typed, k.aim.job)
		return "", 0, true
	case backgroundKey:
		if k.back != nil {
			k.back()
		}
		return typed, pos, true
	case endKey:
		runes := []rune(typed)
		if len(runes) == 0 {
			k.end()
		} else if pos < len(runes) { // as the editor would
			runes = append(runes[:pos], runes[pos+1:]...)
		}
		return string(runes), pos, true
	case completeKey:
		if k.aim.reads {
			return typed, pos, true
		}
		line, pos, others := complete(typed, pos, k.aim.dir)
		if others != "" {
			k.write(others)
		}
		return line, pos, true
	default:
		return "", 0, false
	}
}

func (e editor) resize(size messages.Size) {
	size = size.OrDefault()
	_ = e.SetSize(int(size.Cols), int(size.Rows)) // if the terminal is gone, the next write fails
}

// history holds the lines that the arrow keys bring back, the newest last.
type history struct {
	entries []string
	sought  *string // the text that Ctrl-R searches for
	at      int     // the place of the found entry
}

// search finds the newest entry that contains the typed text. Each further Ctrl-R finds the one before.
func (h *history) search(typed string) (line string, found bool) {
	from := 0
	if h.sought == nil {
		h.sought = &typed
	} else {
		from = h.at + 1
	}
	for i := from; i < h.Len(); i++ {
		if entry := h.At(i); strings.Contains(entry, *h.sought) && entry != typed {
			h.at = i
			return entry, true
		}
	}
	return typed, true
}

// historyLength bounds a history.
const historyLength = 1000

// Add implements term.History. It skips empty lines and repetitions of the last line.
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
