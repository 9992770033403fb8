package patch

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// maxSteps bounds the work of finding the hunks of one patch, in comparisons of two lines; one of long lines counts as several. A patch of
// 100 hunks for a file of 100,000 lines needs a third of it at worst.
const maxSteps = 1 << 27

// edit puts other lines in the place of some lines of a file.
type edit struct {
	at, removed int
	added       []string // without line ends
}

// document is the text of a file, as the hunks of one Update see it: what an earlier hunk adds is not in it.
type document struct {
	lines []string // with their line ends; the last one has one, too
	end   string   // the line end of the first line, and so of all that is added
	views [len(comparisons)][]string
	steps *int // what is left of maxSteps
}

// comparisons are the ways to compare lines, from strict to lenient: both sides are changed, and then have to be equal.
var comparisons = [...]func(string) string{
	func(line string) string { return line },
	func(line string) string { return strings.TrimRightFunc(line, unicode.IsSpace) },
	strings.TrimSpace,
	func(line string) string { return strings.Map(plain, strings.TrimSpace(line)) },
}

// plain turns typographic characters into what a keyboard has.
func plain(r rune) rune {
	switch {
	case r >= 0x2010 && r <= 0x2015, r == 0x2212:
		return '-'
	case r >= 0x2018 && r <= 0x201b:
		return '\''
	case r >= 0x201c && r <= 0x201f:
		return '"'
	case r == 0xa0, r >= 0x2002 && r <= 0x200a, r == 0x202f, r == 0x205f, r == 0x3000:
		return ' '
	}
	return r
}

// newDocument splits a text behind "\n", "\r\n" and "\r". What follows MaxFileLines lines is one line.
func newDocument(data []byte, steps *int) *document {
	d, text := &document{end: "\n", steps: steps}, string(data)
	for text != "" {
		n := strings.IndexAny(text, "\r\n") + 1
		if n > 0 && strings.HasPrefix(text[n-1:], "\r\n") {
			n++
		}
		if n == 0 || len(d.lines) == MaxFileLines {
			d.lines = append(d.lines, text+d.end)
			break
		}
		if len(d.lines) == 0 {
			d.end = text[len(content(text[:n])):n]
		}
		d.lines = append(d.lines, text[:n])
		text = text[n:]
	}
	return d
}

// content is a line without its line end.
func content(line string) string {
	if text, found := strings.CutSuffix(line, "\n"); found {
		return strings.TrimSuffix(text, "\r")
	}
	return strings.TrimSuffix(line, "\r")
}

// edits finds the hunks, each behind the one before.
func (d *document) edits(hunks []hunk) (all []edit, err error) {
	cursor := 0
	for _, hunk := range hunks {
		if hunk.context != "" {
			at, found := d.find([]string{hunk.context}, cursor, false)
			if !found {
				return nil, d.missing(hunk.line, cursor, "the context", []string{hunk.context})
			}
			cursor = at + 1
		}
		old := hunk.old()
		if len(old) == 0 { // there is nothing to find: behind the context, or at the end
			at := len(d.lines)
			if hunk.context != "" && !hunk.atEnd {
				at = cursor
			}
			all = append(all, hunk.edits(at)...)
			continue
		}
		at, found := d.find(old, cursor, hunk.atEnd)
		if !found && hunk.dropBlank() {
			at, found = d.find(hunk.old(), cursor, hunk.atEnd)
		}
		if !found {
			return nil, d.missing(hunk.line, cursor, "the expected lines", old)
		}
		all = append(all, hunk.edits(at)...)
		cursor = at + len(hunk.old())
	}
	slices.SortStableFunc(all, func(a, b edit) int { return a.at - b.at }) // what is added at the end may be followed by more
	return all, nil
}

// find looks for adjacent lines from a line on; with atEnd, only at the end of the file. One comparison after the other
// looks at all of them.
func (d *document) find(old []string, from int, atEnd bool) (at int, found bool) {
	if len(old) == 0 {
		return from, true
	}
	last := len(d.lines) - len(old)
	if atEnd {
		from = max(from, last)
	}
	for i, change := range comparisons {
		wanted := make([]string, len(old))
		for j, line := range old {
			wanted[j] = change(line)
		}
		lines := d.view(i)
		for at := from; at <= last && *d.steps > 0; at++ {
			if d.equal(lines[at:], wanted) {
				return at, true
			}
		}
	}
	return 0, false
}

// view has the lines of the file as a comparison sees them.
func (d *document) view(comparison int) []string {
	if d.views[comparison] == nil {
		view := make([]string, len(d.lines))
		for i, line := range d.lines {
			view[i] = comparisons[comparison](content(line))
		}
		d.views[comparison] = view
	}
	return d.views[comparison]
}

// equal compares lines while steps are left.
func (d *document) equal(lines, wanted []string) bool {
	for i, line := range wanted {
		*d.steps -= 1 + len(line)/64
		if lines[i] != line || *d.steps < 0 {
			return false
		}
	}
	return true
}

// missing says what was not found.
func (d *document) missing(line, from int, what string, lines []string) error {
	if *d.steps <= 0 {
		return fmt.Errorf("line %d: to find its hunks takes too long; split the patch", line)
	}
	const most = 40
	shownLines := make([]string, min(len(lines), most))
	for i := range shownLines {
		shownLines[i] = shown(lines[i])
	}
	if more := len(lines) - most; more > 0 {
		shownLines = append(shownLines, "…")
	}
	return fmt.Errorf("line %d: %s cannot be found from line %d of the file on:\n%s", line, what, from+1, strings.Join(shownLines, "\n"))
}

// size is how many bytes apply returns.
func (d *document) size(edits []edit) (bytes int) {
	for _, line := range d.lines {
		bytes += len(line)
	}
	for _, edit := range edits {
		for _, line := range d.lines[edit.at : edit.at+edit.removed] {
			bytes -= len(line)
		}
		for _, line := range edit.added {
			bytes += len(line) + len(d.end)
		}
	}
	return bytes
}

// apply puts the edits into the lines.
func (d *document) apply(edits []edit) []byte {
	b := bytes.NewBuffer(make([]byte, 0, d.size(edits)))
	next := 0
	for _, edit := range edits {
		for _, line := range d.lines[next:edit.at] {
			b.WriteString(line)
		}
		for _, line := range edit.added {
			b.WriteString(line)
			b.WriteString(d.end)
		}
		next = edit.at + edit.removed
	}
	for _, line := range d.lines[next:] {
		b.WriteString(line)
	}
	return b.Bytes()
}

// old are the lines that a hunk finds in the file.
func (h *hunk) old() (lines []string) {
	for _, line := range h.body {
		if line.mark != '+' {
			lines = append(lines, line.text)
		}
	}
	return lines
}

// edits are what a hunk does to the lines that it found. What stays, stays as it is in the file.
func (h *hunk) edits(at int) (all []edit) {
	open := false // the last edit takes more lines
	for _, line := range h.body {
		if line.mark == ' ' {
			at, open = at+1, false
			continue
		}
		if !open {
			all, open = append(all, edit{at: at}), true
		}
		last := &all[len(all)-1]
		if line.mark == '+' {
			last.added = append(last.added, line.text)
		} else {
			last.removed, at = last.removed+1, at+1
		}
	}
	return all
}

// dropBlank takes the last line from what a hunk looks for, if that is blank: patches often have one too many. If what comes in its
// place ends with a blank line, that goes, too.
func (h *hunk) dropBlank() bool {
	body := slices.Clone(h.body)
	drop := func(without byte) bool { // from the lines that have another mark
		last := len(body) - 1
		for last >= 0 && body[last].mark == without {
			last--
		}
		switch {
		case last < 0 || body[last].text != "":
			return false
		case body[last].mark == ' ':
			body[last].mark = without
		default:
			body = slices.Delete(body, last, last+1)
		}
		return true
	}
	if !drop('+') {
		return false
	}
	drop('-')
	h.body = body
	return true
}
