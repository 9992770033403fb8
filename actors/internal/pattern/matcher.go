package pattern

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// Matcher looks for one pattern. It is not safe for concurrent use.
type Matcher struct {
	first *regexp.Regexp // for the beginning of the text
	later *regexp.Regexp // for text whose first character is only there for assertions; the same if there are none
	back  int            // the most bytes of text in which an unfinished match can have begun
	lines bool           // a match has no \n, so it can only have begun in the last line

	text   text
	window []byte
	// offsets are where the bytes of the window are in the output, as far as they do not follow each other.
	offsets []span
	began   bool // text was dropped from the window
	next    int64

	from int64  // where the echo may begin
	echo []byte // the rest of what may be shown of the input
	held []byte // what was left out of it
}

// span says where the bytes from an index of the window on are in the output.
type span struct {
	index  int
	offset int64
}

// New makes a matcher for a pattern that a request's check has accepted. Input, which may be nil, was typed when the output had come to the
// offset from.
func New(expression string, input []byte, from int64) (*Matcher, error) {
	first, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	m := &Matcher{first: first, later: first, from: from, echo: echoOf(input)}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	m.back, m.lines = min(longest(parsed), messages.MaxPatternMatch), !hasNewline(parsed)
	if looksBack(parsed) {
		m.later, err = regexp.Compile("(?s:.)(?:" + expression + ")")
	}
	return m, err
}

// looksBack reports whether an expression has assertions about what comes before.
func looksBack(e *syntax.Regexp) bool {
	switch e.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, sub := range e.Sub {
		if looksBack(sub) {
			return true
		}
	}
	return false
}

// unbounded is the length of a match that has no bound.
const unbounded = 1 << 30

// longest is the most bytes that a match can have.
func longest(e *syntax.Regexp) (n int) {
	switch e.Op {
	case syntax.OpLiteral:
		return len(e.Rune) * utf8.UTFMax
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return utf8.UTFMax
	case syntax.OpStar, syntax.OpPlus:
		return unbounded
	}
	for _, sub := range e.Sub {
		if e.Op == syntax.OpAlternate {
			n = max(n, longest(sub))
		} else {
			n += longest(sub)
		}
	}
	if e.Op == syntax.OpRepeat {
		if e.Max < 0 {
			return unbounded
		}
		n *= e.Max
	}
	return min(n, unbounded)
}

// hasNewline reports whether a match can have a \n in it.
func hasNewline(e *syntax.Regexp) bool {
	switch e.Op {
	case syntax.OpAnyChar:
		return true
	case syntax.OpLiteral:
		return slices.Contains(e.Rune, '\n')
	case syntax.OpCharClass:
		for i := 0; i+1 < len(e.Rune); i += 2 {
			if e.Rune[i] <= '\n' && '\n' <= e.Rune[i+1] {
				return true
			}
		}
	}
	return slices.ContainsFunc(e.Sub, hasNewline)
}

// Push takes the output from an offset on. It returns the offset behind the first match, if there is one. Output that is missing before it
// ends the text before, and what the terminal shows of input.
func (m *Matcher) Push(offset int64, p []byte) (end int64, found bool) {
	if offset != m.next && m.next != 0 {
		m.text, m.echo, m.held = text{}, nil, nil
		m.window, m.offsets, m.began = m.window[:0], m.offsets[:0], true
	}
	m.next = offset + int64(len(p))
	m.text.push(p, func(at int, b byte) { m.emit(offset+int64(at), b) })
	end, found = m.find()
	m.trim()
	return end, found
}

// emit adds a byte of text, unless it is what the terminal shows of input.
func (m *Matcher) emit(offset int64, b byte) {
	switch {
	case len(m.echo) == 0 || offset < m.from:
	case m.echo[0] == b:
		m.echo, m.held = m.echo[1:], append(m.held, b)
		return
	case len(m.held) == 0 && (b == '\n' || b == ' '): // the rest of what was shown before may come after the input has gone out
	default: // it is something else
		for i, b := range m.held {
			m.add(offset-int64(len(m.held)-i), b)
		}
		m.echo = nil
	}
	m.held = nil
	m.add(offset, b)
}

func (m *Matcher) add(offset int64, b byte) {
	if n := len(m.offsets); n == 0 || m.offsets[n-1].offset+int64(len(m.window)-m.offsets[n-1].index) != offset {
		m.offsets = append(m.offsets, span{len(m.window), offset})
	}
	m.window = append(m.window, b)
}

func (m *Matcher) find() (end int64, found bool) {
	expression := m.first
	if m.began {
		expression = m.later
	}
	at := expression.FindIndex(m.window)
	if at == nil {
		return 0, false
	}
	return m.offsetBehind(at[1]), true
}

// offsetBehind is the offset in the output behind the byte before an index.
func (m *Matcher) offsetBehind(index int) int64 {
	for i := len(m.offsets) - 1; i >= 0; i-- {
		if s := m.offsets[i]; s.index < index {
			return s.offset + int64(index-s.index)
		}
	}
	return m.next
}

// trim drops what no match can begin in. It keeps one more character than a match may have, for assertions.
func (m *Matcher) trim() {
	drop := len(m.window) - m.back - utf8.UTFMax
	if m.lines {
		drop = max(drop, bytes.LastIndexByte(m.window, '\n'))
	}
	if drop <= len(m.window)-drop { // moving the rest would cost more than comparing it again
		return
	}
	m.began = true
	m.window = append(m.window[:0], m.window[drop:]...)
	kept := m.offsets[:0]
	for i, s := range m.offsets {
		switch last := i+1 == len(m.offsets); {
		case s.index >= drop:
			kept = append(kept, span{s.index - drop, s.offset})
		case last || m.offsets[i+1].index > drop:
			kept = append(kept, span{0, s.offset + int64(drop-s.index)})
		}
	}
	m.offsets = kept
}
