package view

import (
	"strings"

	"github.com/execbus/execbus/messages"
)

// Bounds of a screen, in cells. A larger size is taken as this. A cell takes 20 bytes, and the alternate screen has its own: 20
// MB each at most.
const (
	MaxRows = 500
	MaxCols = 2000
)

func bounded(size messages.Size) (rows, cols int) {
	size = size.OrDefault()
	return min(int(size.Rows), MaxRows), min(int(size.Cols), MaxCols)
}

// Screen is what a terminal shows; see the package doc. It is to be used by one goroutine at a time.
type Screen struct {
	terminal *terminal
}

// NewScreen begins with an empty screen. Where the size is zero it is the default.
func NewScreen(size messages.Size) *Screen {
	return &Screen{newTerminal(bounded(size))}
}

// Write shows output. It takes all of it and never fails.
func (s *Screen) Write(output []byte) (int, error) {
	s.terminal.feed(output)
	return len(output), nil
}

// Resize changes the size, as the terminal's was changed at this place of the output.
func (s *Screen) Resize(size messages.Size) { s.terminal.resize(bounded(size)) }

// Size is the size of the screen.
func (s *Screen) Size() messages.Size {
	return messages.Size{Rows: uint16(len(s.terminal.rows)), Cols: uint16(s.terminal.cols)}
}

// Cursor is where the cursor is, counted from zero.
type Cursor struct {
	Row, Col int
	Visible  bool
}

// Cursor returns the cursor. Behind a character in the last column it is in that column.
func (s *Screen) Cursor() Cursor {
	t := s.terminal
	return Cursor{t.y, min(t.x, t.cols-1), t.modes&cursorShown != 0}
}

// Title is the title that the program has set: one line of valid UTF-8 without control characters, at most 4 KiB.
func (s *Screen) Title() string { return s.terminal.title }

// FullScreen reports whether the alternate screen is on.
func (s *Screen) FullScreen() bool { return s.terminal.main != nil }

// Modes are what the program has asked of the keyboard and of the mouse. A screen has neither; who sends input may want to know.
type Modes struct {
	BracketedPaste    bool
	ApplicationCursor bool // cursor keys send ESC O and not ESC [
	ApplicationKeypad bool
	FocusReports      bool
	Mouse             bool // the mouse is reported
}

// Modes returns the modes.
func (s *Screen) Modes() Modes {
	on := func(m mode) bool { return s.terminal.modes&m != 0 }
	return Modes{on(bracketedPaste), on(applicationCursor), on(applicationKeypad), on(focusReports), on(mouseReports)}
}

// Text is what the screen shows as plain text: its rows, each with an end of line, without blanks at their ends and without
// empty rows at the end.
func (s *Screen) Text() string {
	t := s.terminal
	var b strings.Builder
	for y := range t.rows {
		cells := t.rows[y].cells
		for _, c := range cells[:extent(cells)] {
			if c.char != covered {
				b.WriteString(t.show(c))
			}
		}
		b.WriteByte('\n')
	}
	text := strings.TrimRight(b.String(), "\n")
	if text == "" {
		return ""
	}
	return text + "\n"
}

// show is what a cell shows.
func (t *terminal) show(c cell) string {
	if c.char == 0 {
		return " "
	}
	return t.clusters.text(c.char)
}

// run is a part of a row that looks the same.
type run struct {
	style
	from, end int // columns
	text      string
}

// runs takes a row apart. The default style behind what is shown is left out.
func (t *terminal) runs(r *row) []run {
	cells := r.cells
	for len(cells) > 0 && cells[len(cells)-1].blank() && cells[len(cells)-1].style == (style{}) {
		cells = cells[:len(cells)-1]
	}
	var runs []run
	var text strings.Builder
	for from := 0; from < len(cells); {
		end := from
		for ; end < len(cells) && cells[end].style == cells[from].style; end++ {
			if cells[end].char != covered {
				text.WriteString(t.show(cells[end]))
			}
		}
		runs = append(runs, run{cells[from].style, from, end, text.String()})
		text.Reset()
		from = end
	}
	return runs
}

// ANSI is what the screen shows, with colours, as escape sequences: rows that end with \n. Each row ends with the default
// style. There are no other sequences than SGR in it.
func (s *Screen) ANSI() string {
	var b []byte
	for y := range s.terminal.rows {
		set := style{}
		for _, run := range s.terminal.runs(&s.terminal.rows[y]) {
			if run.style != set {
				b = run.appendSGR(b)
				set = run.style
			}
			b = append(b, run.text...)
		}
		if set != (style{}) {
			b = append(b, "\x1b[0m"...)
		}
		b = append(b, '\n')
	}
	return string(b)
}
