package spool

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// automaton finds rows of a text in which an expression may match, a byte at a time: a deterministic automaton over whole blocks, whose states
// are made as they are needed. It passes over no row that matches, and may stop at one that does not: to it all characters beyond ASCII are
// one that is in a class if any of them is, \b and \B hold everywhere, and each \r may be the end of its row.
type automaton struct {
	prog   *syntax.Prog
	class  [256]uint8 // bytes of a class are the same to each instruction
	bytes  []byte     // the first one of each class
	states map[string]*state
	began  *state // at the beginning of a row
	room   int    // bytes that further states may take
	fed    int    // bytes of text since there was no room

	// The set of instructions under way: those of a state, all that have led to them, and whether the match is one of those.
	set     []uint32
	seen    []uint32
	in      []bool
	matched bool
}

// state is a set of instructions: those that take a byte, and assertions about the end of a row.
type state struct {
	instructions []uint32
	next         []*state // of each class; nil: it was not made yet
}

// found is the state in which the row may match.
var found = &state{}

const (
	// maxStates bounds the memory of the states, in bytes, of which each has some besides what is in its slices. Where there is no more room
	// they are made anew; if they have not paid for themselves, with perState bytes of text for each, the automaton gives up.
	maxStates = 2 << 20
	stateSize = 128
	perState  = 16
	// maxInstructions bounds what it takes to make one of them.
	maxInstructions = 10_000
)

// newAutomaton returns nil if there is none that helps: the expression is too large, or every row may match.
func newAutomaton(e *syntax.Regexp) *automaton {
	prog, err := syntax.Compile(e.Simplify())
	if err != nil || len(prog.Inst) > maxInstructions {
		return nil
	}
	a := &automaton{prog: prog, in: make([]bool, len(prog.Inst))}
	begins := [257]bool{'\n': true, '\n' + 1: true, '\r': true, '\r' + 1: true, utf8.RuneSelf: true}
	for i := range prog.Inst {
		instruction := &prog.Inst[i]
		for _, r := range bounds(instruction) {
			begins[min(r, utf8.RuneSelf)] = true
		}
	}
	for b := range a.class {
		if b == 0 || begins[b] {
			a.bytes = append(a.bytes, byte(b))
		}
		a.class[b] = uint8(len(a.bytes) - 1)
	}
	if a.reset(); a.began == found {
		return nil
	}
	return a
}

// bounds are the first characters of runs which an instruction tells apart.
func bounds(i *syntax.Inst) (first []rune) {
	if i.Op != syntax.InstRune && i.Op != syntax.InstRune1 {
		return nil
	}
	if len(i.Rune) != 1 {
		for at := 0; at < len(i.Rune); at += 2 {
			first = append(first, i.Rune[at], i.Rune[at+1]+1)
		}
		return first
	}
	for r, more := i.Rune[0], true; more; {
		first = append(first, r, r+1)
		if syntax.Flags(i.Arg)&syntax.FoldCase == 0 {
			break
		}
		r = unicode.SimpleFold(r)
		more = r != i.Rune[0]
	}
	return first
}

// reset forgets all states.
func (a *automaton) reset() {
	a.states, a.room, a.fed = map[string]*state{}, maxStates, 0
	a.follow(uint32(a.prog.Start), syntax.EmptyBeginLine|syntax.EmptyBeginText)
	a.began = a.state()
}

// follow adds what an instruction leads to without a byte. The assertions about the beginning and the end of a row hold if they are among those
// given.
func (a *automaton) follow(at uint32, holds syntax.EmptyOp) {
	for stack := []uint32{at}; len(stack) > 0; {
		at, stack = stack[len(stack)-1], stack[:len(stack)-1]
		if a.in[at] {
			continue
		}
		a.in[at], a.seen = true, append(a.seen, at)
		const begins, ends = syntax.EmptyBeginLine | syntax.EmptyBeginText, syntax.EmptyEndLine | syntax.EmptyEndText
		switch i := &a.prog.Inst[at]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, i.Out)
		case syntax.InstEmptyWidth:
			switch missing := syntax.EmptyOp(i.Arg) &^ holds; {
			case missing&begins != 0:
			case missing&ends != 0:
				a.set = append(a.set, at)
			default:
				stack = append(stack, i.Out)
			}
		case syntax.InstMatch:
			a.matched = true
		case syntax.InstFail:
		default:
			a.set = append(a.set, at)
		}
	}
}

// taken is the set that was made, until the next one is begun, and whether the match is in it.
func (a *automaton) taken() (set []uint32, matched bool) {
	set, matched = a.set, a.matched
	for _, at := range a.seen {
		a.in[at] = false
	}
	a.set, a.seen, a.matched = a.set[:0], a.seen[:0], false
	return set, matched
}

// state is the state of the set that was made.
func (a *automaton) state() *state {
	set, matched := a.taken()
	if matched {
		return found
	}
	slices.Sort(set)
	key := make([]byte, 0, 4*len(set))
	for _, at := range set {
		key = binary.LittleEndian.AppendUint32(key, at)
	}
	s := a.states[string(key)]
	if s == nil {
		s = &state{instructions: slices.Clone(set), next: make([]*state, len(a.bytes))}
		a.states[string(key)] = s
		a.room -= stateSize + 2*len(key) + 8*len(s.next)
	}
	return s
}

// step makes the state that follows a state by a class.
func (a *automaton) step(s *state, class uint8) *state {
	b := a.bytes[class]
	switch {
	case (b == '\n' || b == '\r') && a.ends(s):
		return found
	case b == '\n':
		return a.began
	}
	for _, at := range s.instructions {
		i := &a.prog.Inst[at]
		if !takes(i, b) {
			continue
		}
		a.follow(i.Out, 0)
		if b >= utf8.RuneSelf && !a.in[at] { // the next byte may be of the same character
			a.in[at], a.seen, a.set = true, append(a.seen, at), append(a.set, at)
		}
	}
	a.follow(uint32(a.prog.Start), 0) // a match may begin anywhere
	return a.state()
}

// takes reports whether an instruction takes a byte, or a part of a character beyond ASCII.
func takes(i *syntax.Inst, b byte) bool {
	switch {
	case i.Op == syntax.InstEmptyWidth:
		return false
	case b < utf8.RuneSelf:
		return i.MatchRune(rune(b))
	case i.Op == syntax.InstRuneAny || i.Op == syntax.InstRuneAnyNotNL:
		return true
	}
	return slices.Max(append(bounds(i), 0)) > utf8.RuneSelf
}

// ends reports whether a row that ends in a state may match.
func (a *automaton) ends(s *state) bool {
	for _, at := range s.instructions {
		if a.prog.Inst[at].Op == syntax.InstEmptyWidth {
			a.follow(at, ^syntax.EmptyOp(0))
		}
	}
	_, matched := a.taken()
	return matched
}

// find is a place in the first row of a text that may match; its length if there is none. It reports false if it gave up, for good.
func (a *automaton) find(text []byte) (pos int, ok bool) {
	s, begin := a.began, 0
	defer func() { a.fed += pos - begin }()
	for ; pos < len(text); pos++ {
		class := a.class[text[pos]]
		next := s.next[class]
		if next == nil {
			next = a.step(s, class)
			s.next[class] = next
			if a.room < 0 {
				if a.fed+pos-begin < perState*len(a.states) {
					return 0, false
				}
				a.reset()
				begin = pos
				if next != found {
					a.set = append(a.set, next.instructions...)
					next = a.state()
				}
			}
		}
		if next == found {
			return pos, true
		}
		s = next
	}
	if len(text) > 0 && text[len(text)-1] != '\n' && a.ends(s) {
		return len(text) - 1, true
	}
	return len(text), true
}
