package spool

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// literals are texts of which each match of a pattern contains at least one, so that a search can look for them first. None means that
// nothing of the kind is known.
type literals []string

// maxLiterals bounds the texts to look for: each costs a search of its own.
const maxLiterals = 8

// leastLiteral is the least length of a text for which it pays to look before the automaton does: a shorter one is in many rows.
const leastLiteral = 3

// required finds the texts of which every match of an expression contains one.
func required(e *syntax.Regexp) literals {
	switch e.Op {
	case syntax.OpLiteral:
		if e.Flags&syntax.FoldCase != 0 || slices.Contains(e.Rune, utf8.RuneError) { // the latter stands for any broken byte
			return nil
		}
		return literals{string(e.Rune)}
	case syntax.OpCapture, syntax.OpPlus:
		return required(e.Sub[0])
	case syntax.OpRepeat:
		if e.Min > 0 {
			return required(e.Sub[0])
		}
	case syntax.OpConcat:
		var best literals
		for _, sub := range e.Sub {
			if found := required(sub); found.shortest() > best.shortest() {
				best = found
			}
		}
		return best
	case syntax.OpAlternate:
		var all literals
		for _, sub := range e.Sub {
			found := required(sub)
			if found == nil || len(all)+len(found) > maxLiterals {
				return nil
			}
			all = append(all, found...)
		}
		return all
	}
	return nil
}

// shortest is the length of the shortest text; 0 without any.
func (l literals) shortest() int {
	if l == nil {
		return 0
	}
	return len(slices.MinFunc(l, func(a, b string) int { return len(a) - len(b) }))
}

// finder finds rows that may match, in one text after the other.
type finder struct {
	literals [][]byte
	next     []int // where each comes next in the text; its length if it does not
	// automaton looks at rows that have a literal, or at all if there is none; nil: every such row may match.
	automaton *automaton
	at        int  // what was found last
	long      bool // a row of the text is so long that it is several to a search
}

func newFinder(e *syntax.Regexp) *finder {
	l, a := required(e), newAutomaton(e)
	if a != nil && l.shortest() < leastLiteral {
		l = nil
	}
	f := &finder{next: make([]int, len(l)), automaton: a}
	for _, literal := range l {
		f.literals = append(f.literals, []byte(literal))
	}
	return f
}

// begin is called before the first find in another text.
func (f *finder) begin(text []byte) {
	for i := range f.next {
		f.next[i] = -1
	}
	f.at, f.long = -1, false
	for len(text) > messages.MaxGrepLine && !f.long {
		end := bytes.LastIndexByte(text[:messages.MaxGrepLine+1], '\n')
		f.long, text = end < 0, text[end+1:]
	}
}

// find is a place in the first row from pos on, where a row begins, that may match; the length of the text if there is none.
func (f *finder) find(text []byte, pos int) int {
	for f.at < pos {
		f.at = f.literal(text, pos)
		if f.automaton == nil || f.long || f.at == len(text) {
			break
		}
		row := text[pos:]
		if len(f.literals) > 0 {
			begin := pos + bytes.LastIndexByte(text[pos:f.at], '\n') + 1
			_, end := lineAt(text, begin)
			row, pos = text[begin:end], begin
		}
		at, ok := f.automaton.find(row)
		if !ok {
			f.automaton = nil
			break
		}
		if f.at = pos + at; at == len(row) && f.at < len(text) {
			pos, f.at = f.at, -1
		}
	}
	return f.at
}

// literal is the first place from pos on where there is a literal; the length of the text if there is none.
func (f *finder) literal(text []byte, pos int) int {
	if len(f.literals) == 0 {
		return pos
	}
	first := len(text)
	for i, literal := range f.literals {
		if f.next[i] < pos {
			f.next[i] = len(text)
			if at := bytes.Index(text[pos:], literal); at >= 0 {
				f.next[i] = pos + at
			}
		}
		first = min(first, f.next[i])
	}
	return first
}
