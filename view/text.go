package view

import (
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// Text makes text of output; see the package doc. It is to be used by one goroutine at a time. It has no more memory than a
// screen of its size.
type Text struct {
	terminal *terminal
	out      []byte // where the row that becomes final goes
}

// NewText begins a text. The size is that of the terminal; the zero Size says that the output comes from pipes.
func NewText(size messages.Size) *Text {
	t := &Text{}
	if size == (messages.Size{}) {
		t.terminal = newTerminal(messages.DefaultSizeRows, MaxCols)
		t.terminal.newline = true
	} else {
		t.terminal = newTerminal(bounded(size))
	}
	t.terminal.keepTabs = true
	t.terminal.history = func(r *row) { t.out = t.appendRow(t.out, r, true) }
	return t
}

// Append goes on with output, and appends what has become final by it.
func (t *Text) Append(to, output []byte) []byte {
	t.out = to
	t.terminal.feed(output)
	to, t.out = t.out, nil
	return to
}

// AppendRest appends what is not final yet. That changes nothing: Append may go on.
func (t *Text) AppendRest(to []byte) []byte {
	rows := t.terminal.rows
	if t.terminal.main != nil {
		for y := range t.terminal.main.rows[:used(t.terminal.main.rows)] {
			to = t.appendRow(to, &t.terminal.main.rows[y], true)
		}
	}
	last := max(used(rows)-1, t.terminal.y)
	for y := range rows[:last+1] {
		to = t.appendRow(to, &rows[y], y < last)
	}
	if len(t.terminal.parser.partial) > 0 { // what the output ends with is half a character
		to = utf8.AppendRune(to, utf8.RuneError)
	}
	return to
}

// FullScreen reports whether the alternate screen is on: a screen shows better than text what the program does.
func (t *Text) FullScreen() bool { return t.terminal.main != nil }

// TextOf is the text of output that is complete.
func TextOf(output []byte, size messages.Size) []byte {
	t := NewText(size)
	return t.AppendRest(t.Append(nil, output))
}

// appendRow appends a row, and the end of its line unless it goes on in the next row.
func (t *Text) appendRow(to []byte, r *row, ends bool) []byte {
	cells := r.cells
	joins := r.wrapped && len(cells) >= t.terminal.cols-1 // what was written later may be shorter
	if !joins {
		cells = cells[:extent(cells)]
	}
	for i := range cells {
		switch char := cells[i].char; {
		case char > 0 && char < utf8.RuneSelf:
			to = append(to, byte(char))
		case char == 0:
			to = append(to, ' ')
		case char != covered:
			to = t.terminal.clusters.append(to, char)
		}
	}
	if ends && !joins {
		to = append(to, '\n')
	}
	return to
}

// extent is how many cells there are up to the last one with something to see.
func extent(cells []cell) int {
	n := len(cells)
	for n > 0 {
		lead := n - 1
		for lead > 0 && cells[lead].char == covered {
			lead--
		}
		if c := cells[lead]; !c.blank() && c.char != '\t' {
			break
		}
		n = lead
	}
	return n
}
