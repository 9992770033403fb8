package view

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// terminal is what a terminal makes of its input.
type terminal struct {
	parser parser

	rows []row // of the screen in use
	cols int
	x, y int // the cursor; x is cols behind a character in the last column: the next one begins a row
	style
	shifted  bool    // G1 is in use, not G0
	graphics [2]bool // G0 and G1 are the DEC special graphics
	saved    cursor  // by DECSC

	top, bottom int // the rows that scroll
	tabs        []bool
	modes       mode
	last        rune // the character that REP repeats; zero: none
	joining     bool // the last character was a zero width joiner

	main      *mainScreen // while the alternate screen is in use
	mainSaved *cursor     // when it was turned on with its cursor
	title     string
	titles    []string

	clusters clusters
	widths   widths

	// history takes the rows that leave the main screen at its top; nil: nobody wants them.
	history  func(*row)
	keepTabs bool // tabs are kept as what they are
	newline  bool // a line feed goes to the beginning of the row, too
}

// mainScreen is what the alternate screen covers.
type mainScreen struct {
	rows  []row
	cols  int
	style style
}

// cursor is what DECSC saves.
type cursor struct {
	x, y int
	style
	shifted  bool
	graphics [2]bool
	origin   bool
}

type mode uint32

const (
	wrapMode mode = 1 << iota
	insertMode
	originMode
	cursorShown
	bracketedPaste
	applicationCursor
	applicationKeypad
	focusReports
	mouseReports
)

// privateMode returns a mode that has no other effect than to be remembered or to steer what follows; zero: it is none.
func privateMode(n int) mode {
	switch n {
	case 1:
		return applicationCursor
	case 7:
		return wrapMode
	case 25:
		return cursorShown
	case 1004:
		return focusReports
	case 2004:
		return bracketedPaste
	}
	return 0
}

// maxTitles bounds the titles that are put aside.
const maxTitles = 16

func newTerminal(rows, cols int) *terminal {
	t := &terminal{rows: make([]row, rows), cols: cols, bottom: rows - 1, modes: wrapMode | cursorShown}
	t.resetTabs()
	return t
}

func (t *terminal) resetTabs() {
	t.tabs = make([]bool, t.cols)
	for x := 8; x < t.cols; x += 8 {
		t.tabs[x] = true
	}
}

// printASCII prints characters from 0x20 to 0x7e.
func (t *terminal) printASCII(p []byte) {
	if t.modes&(wrapMode|insertMode) != wrapMode || t.joining || t.graphics[t.set()] {
		for _, b := range p {
			t.print(rune(b))
		}
		return
	}
	t.last = rune(p[len(p)-1])
	for len(p) > 0 {
		if t.x >= t.cols {
			t.lineFeed(true, 0)
			t.x = 0
		}
		n := min(len(p), t.cols-t.x)
		r, end := &t.rows[t.y], t.x+n
		r.split(t.x)
		r.split(end)
		r.reach(t.x)
		if end > len(r.cells) {
			if end > cap(r.cells) {
				r.reach(end)
			}
			r.cells = r.cells[:end]
		}
		c := cell{style: t.style}
		cells := r.cells[t.x:end]
		for i, b := range p[:n] {
			c.char = rune(b)
			cells[i] = c
		}
		t.x, p = end, p[n:]
	}
}

// set is the set of characters in use.
func (t *terminal) set() int {
	if t.shifted {
		return 1
	}
	return 0
}

// print prints a character.
func (t *terminal) print(r rune) {
	if r >= 0x7f && r < 0xa0 {
		return
	}
	t.last = r
	if r >= 0x5f && r <= 0x7e && t.graphics[t.set()] {
		r = graphics[r-0x5f]
	}
	if r == zeroWidthJoiner {
		t.joining = true
		return
	}
	joined, wide := t.joining, t.widths.columns(r)
	if t.joining = false; joined {
		t.combine(zeroWidthJoiner)
	}
	if joined || wide == 0 {
		t.combine(r)
		return
	}
	wraps := t.modes&wrapMode != 0
	if !wraps && wide > 1 && t.x != t.cols && t.x > t.cols-wide {
		return
	}
	if t.modes&insertMode != 0 && t.x < t.cols {
		t.rows[t.y].insert(t.x, min(wide, t.cols-t.x), t.cols, 0)
	}
	if wraps && t.x > t.cols-wide {
		t.lineFeed(true, 0)
		t.x = 0
	}
	if t.x > t.cols-wide {
		return
	}
	row := &t.rows[t.y]
	if t.x < len(row.cells) {
		row.split(t.x)
		row.split(t.x + wide)
	}
	row.reach(t.x + wide)
	row.cells[t.x] = cell{r, t.style}
	if wide == 2 {
		row.cells[t.x+1] = cell{covered, t.style}
	}
	if t.x += wide; !wraps {
		t.x = min(t.x, t.cols-1)
	}
}

// combine adds a character to the one before the cursor.
func (t *terminal) combine(r rune) {
	row := &t.rows[t.y]
	x := t.x - 1
	for x >= 0 && row.at(x).char == covered {
		x--
	}
	if x < 0 {
		return
	}
	if t.clusters.full() {
		t.compact()
	}
	row.reach(x + 1)
	row.cells[x].char = t.clusters.join(row.cells[x].char, r)
}

// control carries out a control character.
func (t *terminal) control(b byte) {
	if b != 0x1b {
		t.last = 0
	}
	switch b {
	case '\b':
		switch {
		case t.x > 0:
			t.x--
		case t.y > 0 && t.rows[t.y-1].wrapped:
			t.x, t.y = t.cols-1, t.y-1
		}
	case '\t':
		t.tab()
	case '\n', '\v', '\f':
		t.lineFeed(false, t.background)
		if t.newline {
			t.x = 0
		}
	case '\r':
		t.x = 0
	case 0x0e:
		t.shifted = true
	case 0x0f:
		t.shifted = false
	case 0x18, 0x1a:
		t.parser.state = ground
	case 0x1b:
		t.parser.begin()
	}
}

// tab moves the cursor to the next tab stop.
func (t *terminal) tab() {
	if t.x >= t.cols-1 {
		if t.keepTabs {
			t.combine('\t')
		}
		return
	}
	from := t.x
	for t.x++; t.x < t.cols-1 && !t.tabs[t.x]; t.x++ {
	}
	if row := &t.rows[t.y]; t.keepTabs && from >= len(row.cells) {
		row.reach(t.x)
		row.cells[from].char = '\t'
		for i := from + 1; i < t.x; i++ {
			row.cells[i].char = covered
		}
	}
}

// lineFeed moves the cursor down, and scrolls at the bottom.
func (t *terminal) lineFeed(wrapped bool, background colour) {
	if wrapped {
		t.rows[t.y].wrapped = true
	}
	switch {
	case t.y == t.bottom:
		t.scrollUp(background)
	case t.y < len(t.rows)-1:
		t.y++
	}
}

func (t *terminal) scrollUp(background colour) {
	r := scroll(t.rows[t.top:t.bottom+1], true)
	t.remember(r)
	r.clear(t.cols, background)
	if t.main != nil { // where tmux keeps no history it forgets this of some rows
		t.forgetWrap(t.top-1, true)
		t.forgetWrap(t.top, t.bottom-t.top == 1)
	}
}

// forgetWrap forgets that a row goes on in the next one.
func (t *terminal) forgetWrap(y int, forget bool) {
	if y >= 0 && forget {
		t.rows[y].wrapped = false
	}
}

func (t *terminal) scrollDown() {
	t.forgetWrap(t.top-1, true)
	scroll(t.rows[t.top:t.bottom+1], false).clear(t.cols, t.background)
}

// remember hands over a row that leaves the screen.
func (t *terminal) remember(r *row) {
	if t.history != nil && t.main == nil {
		t.history(r)
	}
}

// escape carries out an escape sequence.
func (t *terminal) escape(sign, b byte) {
	switch sign {
	case '(', ')':
		t.graphics[sign-'('] = b == '0'
		return
	case '#':
		if b == '8' {
			t.align()
		}
		return
	case 0:
	default:
		return
	}
	switch b {
	case '7':
		t.save()
	case '8':
		t.restore()
	case '=':
		t.modes |= applicationKeypad
	case '>':
		t.modes &^= applicationKeypad
	case 'D':
		t.lineFeed(false, t.background)
	case 'E':
		t.x = 0
		t.lineFeed(false, t.background)
	case 'H':
		if t.x < t.cols {
			t.tabs[t.x] = true
		}
	case 'M':
		if t.y == t.top {
			t.scrollDown()
		} else if t.y > 0 {
			t.y--
		}
	case 'c':
		t.reset()
	}
}

// align fills the screen with E.
func (t *terminal) align() {
	for y := range t.rows {
		t.rows[y].clear(t.cols, 0)
		t.rows[y].reach(t.cols)
		for x := range t.rows[y].cells {
			t.rows[y].cells[x].char = 'E'
		}
	}
	t.x, t.y, t.top, t.bottom = 0, 0, 0, len(t.rows)-1
}

func (t *terminal) save() {
	t.saved = cursor{t.x, t.y, t.style, t.shifted, t.graphics, t.modes&originMode != 0}
}

func (t *terminal) restore() {
	t.style, t.shifted, t.graphics = t.saved.style, t.saved.shifted, t.saved.graphics
	t.setMode(originMode, t.saved.origin)
	t.x, t.y = min(t.saved.x, t.cols-1), min(t.saved.y, len(t.rows)-1)
}

func (t *terminal) setMode(m mode, on bool) {
	if t.modes &^= m; on {
		t.modes |= m
	}
}

// reset is RIS. It stays in the alternate screen, as tmux does.
func (t *terminal) reset() {
	t.style, t.shifted, t.graphics, t.saved = style{}, false, [2]bool{}, cursor{}
	t.resetTabs()
	t.top, t.bottom = 0, len(t.rows)-1
	t.modes = wrapMode | cursorShown
	t.clearScreen()
	t.x, t.y = 0, 0
}

// clearScreen erases all; what was there leaves the screen.
func (t *terminal) clearScreen() {
	for y := range used(t.rows) {
		t.remember(&t.rows[y])
	}
	for y := range t.rows {
		t.rows[y].clear(t.cols, t.background)
	}
}

// used is how many rows there are up to the last one with something in it.
func used(rows []row) int {
	n := len(rows)
	for n > 0 && len(rows[n-1].cells) == 0 {
		n--
	}
	return n
}

// eraseRows erases whole rows. The one before does not go on in them any more.
func (t *terminal) eraseRows(from, end int) {
	t.forgetWrap(from-1, from < end)
	for y := from; y < end; y++ {
		t.rows[y].clear(t.cols, t.background)
	}
}

// eraseColumns erases a part of the cursor's row.
func (t *terminal) eraseColumns(from, end int) {
	if from == 0 && end == t.cols {
		t.eraseRows(t.y, t.y+1)
	} else if from < end {
		t.rows[t.y].fill(from, end, t.background)
	}
}

// eraseDisplay is ED.
func (t *terminal) eraseDisplay(which int) {
	switch {
	case which == 2:
		t.clearScreen()
	case which == 0:
		t.eraseColumns(t.x, t.cols)
		t.eraseRows(t.y+1, len(t.rows))
	case which == 1:
		t.eraseRows(0, t.y)
		t.eraseColumns(0, min(t.x+1, t.cols))
	}
}

// eraseLine is EL.
func (t *terminal) eraseLine(which int) {
	switch which {
	case 0:
		t.eraseColumns(t.x, t.cols)
	case 1:
		t.eraseColumns(0, min(t.x+1, t.cols))
	case 2:
		t.eraseColumns(0, t.cols)
	}
}

// moveTo is CUP: the cursor goes to a place, counted from one.
func (t *terminal) moveTo(x, y int) {
	y--
	if t.modes&originMode != 0 {
		y = min(y, t.bottom-t.top) + t.top
	}
	t.x, t.y = min(x-1, t.cols-1), min(y, len(t.rows)-1)
}

func (t *terminal) up(n int) {
	limit := 0
	if t.y >= t.top {
		limit = t.top
	}
	t.x, t.y = min(t.x, t.cols-1), max(t.y-n, limit)
}

func (t *terminal) down(n int) {
	limit := t.bottom
	if t.y > t.bottom {
		limit = len(t.rows) - 1
	}
	t.x, t.y = min(t.x, t.cols-1), min(t.y+n, limit)
}

// moveRows inserts rows at the cursor, or deletes them. Outside of the margins it does nothing.
func (t *terminal) moveRows(n int, insert bool) {
	if t.y < t.top || t.y > t.bottom {
		return
	}
	n = min(n, t.bottom+1-t.y)
	for range n {
		scroll(t.rows[t.y:t.bottom+1], !insert).clear(t.cols, t.background)
	}
	t.forgetWrap(t.y-1, true)
	if moved := t.bottom + 1 - t.y - n; !insert {
		t.forgetWrap(t.y+moved-1, n >= moved) // the last one that was moved, as tmux does
	}
}

// margins is DECSTBM.
func (t *terminal) margins(top, bottom int) {
	last := len(t.rows) - 1
	if top, bottom = min(top-1, last), min(bottom-1, last); top < bottom {
		t.x, t.y, t.top, t.bottom = 0, 0, top, bottom
	}
}

// backTab is CBT.
func (t *terminal) backTab(n int) {
	t.x = min(t.x, t.cols-1)
	for ; t.x > 0 && n > 0; n-- {
		for t.x--; t.x > 0 && !t.tabs[t.x]; t.x-- {
		}
	}
}

// controlSequence carries out a control sequence.
func (t *terminal) controlSequence(b byte) {
	var room [maxParameters + 1]parameter
	list, ok := t.parser.split(room[:0])
	if !ok || t.parser.intermediate != 0 {
		return
	}
	get := func(i, otherwise int) int {
		if i < len(list) && !list[i].more {
			return list[i].or(otherwise)
		}
		return otherwise
	}
	switch t.parser.prefix {
	case '?':
		if b == 'h' || b == 'l' {
			for i := range list {
				t.privateMode(get(i, -1), b == 'h')
			}
		}
		return
	case 0:
	default:
		return
	}
	n := max(get(0, 1), 1)
	rest := t.cols - t.x // of the row
	switch b {
	case '@':
		if rest > 0 {
			t.rows[t.y].insert(t.x, min(n, rest), t.cols, t.background)
		}
	case 'A':
		t.up(n)
	case 'B':
		t.down(n)
	case 'C':
		t.x = min(t.x+n, t.cols-1)
	case 'D':
		t.x = max(t.x-n, 0)
	case 'E':
		t.x = 0
		t.down(n)
	case 'F':
		t.x = 0
		t.up(n)
	case 'G', '`':
		t.x = min(n-1, t.cols-1)
	case 'H', 'f':
		t.moveTo(max(get(1, 1), 1), n)
	case 'J':
		t.eraseDisplay(get(0, 0))
	case 'K':
		t.eraseLine(get(0, 0))
	case 'L', 'M':
		t.moveRows(n, b == 'L')
	case 'P':
		if rest > 0 {
			t.rows[t.y].remove(t.x, min(n, rest), t.cols, t.background)
		}
	case 'S':
		for range min(n, t.bottom-t.top+1) {
			t.scrollUp(t.background)
		}
	case 'T':
		for range min(n, t.bottom-t.top+1) {
			t.scrollDown()
		}
	case 'X':
		t.eraseColumns(t.x, t.x+min(n, rest))
	case 'Z':
		t.backTab(n)
	case 'b':
		for r := t.last; r != 0 && n > 0 && rest > 0; n, rest = n-1, rest-1 {
			t.print(r)
		}
	case 'd':
		x := t.x
		t.moveTo(1, n)
		t.x = x
	case 'g':
		t.clearTabs(get(0, 0))
	case 'h', 'l':
		for i := range list {
			if get(i, -1) == 4 {
				t.setMode(insertMode, b == 'h')
			}
		}
	case 'm':
		t.apply(list)
	case 'r':
		t.margins(n, max(get(1, len(t.rows)), 1))
	case 's':
		t.save()
	case 't':
		t.putTitleAside(get(0, 0), get(1, 0))
	case 'u':
		t.restore()
	}
}

func (t *terminal) clearTabs(which int) {
	switch {
	case which == 3:
		clear(t.tabs)
	case which == 0 && t.x < t.cols:
		t.tabs[t.x] = false
	}
}

// putTitleAside is XTWINOPS 22 and 23.
func (t *terminal) putTitleAside(operation, which int) {
	if which != 0 && which != 2 {
		return
	}
	switch last := len(t.titles) - 1; {
	case operation == 22 && last+1 < maxTitles:
		t.titles = append(t.titles, t.title)
	case operation == 23 && last >= 0:
		t.title, t.titles = t.titles[last], t.titles[:last]
	}
}

func (t *terminal) privateMode(n int, on bool) {
	if m := privateMode(n); m != 0 {
		t.setMode(m, on)
		return
	}
	switch n {
	case 3: // the width stays as it is
		t.moveTo(1, 1)
		t.clearScreen()
	case 6:
		t.setMode(originMode, on)
		t.moveTo(1, 1)
	case 47, 1047, 1049:
		t.alternate(on, n == 1049)
	case 1000, 1001, 1002, 1003:
		if n != 1001 || !on {
			t.setMode(mouseReports, on)
		}
	}
}

// alternate turns the alternate screen on or off.
func (t *terminal) alternate(on, withCursor bool) {
	switch {
	case on && t.main == nil:
		t.main = &mainScreen{t.rows, t.cols, t.style}
		if t.rows = make([]row, len(t.rows)); withCursor {
			t.mainSaved = &cursor{x: t.x, y: t.y}
		}
		if t.mainSaved != nil {
			t.mainSaved.style = t.style
		}
	case !on:
		rows, cols := len(t.rows), t.cols
		if t.main != nil {
			t.resize(len(t.main.rows), t.main.cols)
		}
		if withCursor && t.mainSaved != nil {
			t.x, t.y, t.style = t.mainSaved.x, t.mainSaved.y, t.mainSaved.style
		}
		if t.main != nil {
			t.rows, t.main = t.main.rows, nil
			t.resize(rows, cols)
		}
		t.x, t.y = min(t.x, t.cols-1), min(t.y, len(t.rows)-1)
	}
}

// resize changes the size of the screen in use. Rows do not flow. If there are fewer rows, those below the cursor go first,
// then those at the top.
func (t *terminal) resize(rows, cols int) {
	if cols != t.cols {
		t.cols = cols
		t.resetTabs()
		for y := range t.rows {
			if r := &t.rows[y]; len(r.cells) > cols {
				r.split(cols)
				r.cells = r.cells[:cols]
			}
		}
	}
	had := len(t.rows)
	if rows != had {
		t.top, t.bottom = 0, rows-1
	}
	if rows < had {
		below := min(had-1-t.y, had-rows)
		above := had - rows - below
		for y := range above {
			t.remember(&t.rows[y])
		}
		t.y -= above
		t.rows = append([]row(nil), t.rows[above:had-below]...)
	}
	for len(t.rows) < rows {
		t.rows = append(t.rows, row{})
	}
	t.x = min(t.x, cols)
}

// compact forgets the clusters that no row shows.
func (t *terminal) compact() {
	was := t.clusters
	t.clusters = clusters{}
	keep := func(rows []row) {
		for y := range rows {
			for x := range rows[y].cells {
				if c := &rows[y].cells[x]; c.char >= clusterBase {
					c.char = t.clusters.add([]byte(was.text(c.char)))
				}
			}
		}
	}
	keep(t.rows)
	if t.main != nil {
		keep(t.main.rows)
	}
	t.clusters.limit = 2*len(t.clusters.texts) + max(spareClusters, len(t.rows)*t.cols)
}

// operate carries out an operating system command: 0 and 2 set the title.
func (t *terminal) operate() {
	number, text, _ := strings.Cut(string(t.parser.text), ";")
	if number != "0" && number != "2" || t.parser.discarded || !utf8.ValidString(text) {
		return
	}
	t.title = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}
