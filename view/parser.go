package view

import "unicode/utf8"

// parser takes a terminal's input apart. It keeps what a piece of input ends within: a character or a sequence.
type parser struct {
	state   state
	partial []byte // of a character; fewer than utf8.UTFMax bytes

	// prefix is the sign from < to ? at the beginning of a control sequence, or the first intermediate sign of an escape sequence.
	prefix byte
	// intermediate is the sign before the last one of a control sequence.
	intermediate byte
	discarded    bool // there are too many signs or parameters
	parameters   []byte
	text         []byte // of an operating system command
	length       int    // of a text for the terminal so far
}

const (
	maxParameterBytes = 256
	maxParameters     = 32
	// maxText bounds what is kept of an operating system command, which may set the title. A longer one is carried out no more.
	maxText = 4096
	// maxString bounds a text for the terminal, such as an image. What follows is output: the program has not finished the text.
	maxString = 64 << 10
)

type state uint8

const (
	ground          state = iota
	escape                // behind ESC
	escapeSigns           // behind ESC and a sign that is not the last
	controlStart          // behind ESC [
	controlSequence       // in the parameters
	controlSigns          // behind the sign that follows the parameters
	controlIgnored        // in a control sequence that makes no sense
	command               // an operating system command: up to BEL, or to ESC \
	ignoredText           // other texts for the terminal: up to ESC \
)

// parameter is one of a control sequence's; those with parts are several.
type parameter struct {
	value int  // -1: none was given
	more  bool // the next one is a part of this
}

// or returns the value, or another if none was given.
func (p parameter) or(other int) int {
	if p.value < 0 {
		return other
	}
	return p.value
}

// split reads the parameters; ok is false if they are too many or too large.
func (p *parser) split(list []parameter) (_ []parameter, ok bool) {
	if len(p.parameters) == 0 {
		return list, true
	}
	value := -1
	for _, b := range p.parameters {
		if b == ';' || b == ':' {
			list = append(list, parameter{value, b == ':'})
			value = -1
			continue
		}
		if value = max(value, 0)*10 + int(b-'0'); value > 1<<20 {
			return nil, false
		}
	}
	list = append(list, parameter{value: value})
	return list, len(list) <= maxParameters
}

// feed carries out input.
func (t *terminal) feed(p []byte) {
	for len(t.parser.partial) > 0 && len(p) > 0 {
		for len(p) > 0 && !utf8.FullRune(t.parser.partial) {
			t.parser.partial, p = append(t.parser.partial, p[0]), p[1:]
		}
		if !utf8.FullRune(t.parser.partial) {
			return
		}
		var held [utf8.UTFMax]byte
		whole := held[:copy(held[:], t.parser.partial)]
		t.parser.partial = t.parser.partial[:0]
		t.feedWhole(whole)
	}
	t.feedWhole(p)
}

func (t *terminal) feedWhole(p []byte) {
	for i := 0; i < len(p); {
		if t.parser.state != ground {
			t.sequence(p[i])
			i++
			continue
		}
		end := i
		for end < len(p) && p[end]-0x20 < 0x5f {
			end++
		}
		if end > i {
			t.printASCII(p[i:end])
			i = end
			continue
		}
		if p[i] < utf8.RuneSelf {
			t.control(p[i])
			i++
			continue
		}
		r, size := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && !utf8.FullRune(p[i:]) {
			t.parser.partial = append(t.parser.partial[:0], p[i:]...)
			return
		}
		t.print(r)
		i += size
	}
}

// sequence carries out a byte that is part of a sequence.
func (t *terminal) sequence(b byte) {
	p := &t.parser
	if p.state == command || p.state == ignoredText {
		t.stringByte(b)
		return
	}
	switch {
	case b < 0x20:
		t.control(b)
		return
	case b >= 0x7f:
		return
	}
	switch p.state {
	case escape, escapeSigns:
		t.escapeByte(b)
	default:
		t.controlByte(b)
	}
}

// stringByte goes through a text for the terminal.
func (t *terminal) stringByte(b byte) {
	p := &t.parser
	p.length++
	switch {
	case p.length > maxString:
		p.state = ground
	case p.state == command && (b == '\n' || b == '\r'): // it has one line, so its end is missing
		p.state = ground
		t.control(b)
	case b == 0x1b, b == 0x18, b == 0x1a, b == '\a' && p.state == command:
		ended := p.state
		p.state = ground
		if ended == command && b != 0x18 && b != 0x1a {
			t.operate()
		}
		if b == 0x1b {
			t.control(b)
		}
	case p.state == ignoredText || p.discarded || b < 0x20:
	case len(p.text) == maxText:
		p.discarded = true
	default:
		p.text = append(p.text, b)
	}
}

// escapeByte goes through an escape sequence.
func (t *terminal) escapeByte(b byte) {
	p := &t.parser
	if b < 0x30 {
		p.discarded = p.state == escapeSigns
		p.prefix, p.state = b, escapeSigns
		return
	}
	if p.state == escape {
		switch b {
		case '[':
			p.state = controlStart
			return
		case ']':
			p.state, p.text = command, p.text[:0]
			return
		case 'P', 'X', '^', '_', 'k': // the last one is tmux's name of a window
			p.state = ignoredText
			return
		}
	}
	p.state = ground
	if !p.discarded {
		t.escape(p.prefix, b)
	}
	t.last = 0
}

// controlByte goes through a control sequence.
func (t *terminal) controlByte(b byte) {
	p := &t.parser
	switch {
	case b >= 0x40:
		if p.state != controlIgnored && !p.discarded {
			t.controlSequence(b)
		}
		p.state, t.last = ground, 0
	case p.state == controlIgnored:
	case b < 0x30:
		p.discarded = p.discarded || p.state == controlSigns
		p.intermediate, p.state = b, controlSigns
	case p.state == controlSigns, b >= '<' && p.state != controlStart:
		p.state = controlIgnored
	case b >= '<':
		p.prefix, p.state = b, controlSequence
	case len(p.parameters) == maxParameterBytes:
		p.discarded = true
	default:
		p.parameters, p.state = append(p.parameters, b), controlSequence
	}
}

// begin forgets what came before an escape.
func (p *parser) begin() {
	p.state, p.prefix, p.intermediate, p.discarded = escape, 0, 0, false
	p.parameters, p.length = p.parameters[:0], 0
}
