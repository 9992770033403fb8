package spool

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// literals are texts of which each match of a pattern contains at least one, so that a search can look for them first. None means that
// nothing of the kind is known.
type literals []string

// maxLiterals bounds the texts to look for: each costs a search of its own.
const maxLiterals = 8

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

// finder finds the first of several literals in one text after the other.
type finder struct {
	literals [][]byte
	next     []int // where each comes next in the text; its length if it does not
}

func newFinder(l literals) *finder {
	f := &finder{next: make([]int, len(l))}
	for _, literal := range l {
		f.literals = append(f.literals, []byte(literal))
	}
	return f
}

// begin is called before the first find in another text.
func (f *finder) begin() {
	for i := range f.next {
		f.next[i] = -1
	}
}

// find is the first place from pos on where there may be a match; the length of the text if there is none.
func (f *finder) find(text []byte, pos int) int {
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
