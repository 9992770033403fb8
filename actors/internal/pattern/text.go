package pattern

// text turns output into text: it leaves out escape sequences and control characters, and of \r\n the \r. It may be given output in any
// pieces.
type text struct {
	state    state
	returned bool // the last character was a \r, which counts unless \n follows
	command  bool // a text for the terminal is a command of it (OSC), which has no end of line
	length   int  // of that text so far
}

// maxString bounds a text for the terminal, such as an image. What follows is output: the program has not finished the text.
const maxString = 64 << 10

// Characters that end every sequence.
const (
	cancels    = 0x18
	substitute = 0x1a
)

type state int

const (
	plain  state = iota
	escape       // after ESC
	csi          // in a control sequence, up to its last character
	str          // in a text for the terminal, up to BEL or ESC \
	strEsc       // after ESC in one
	skip         // before the one character that belongs to the sequence
)

// push calls emit for each byte of text.
func (t *text) push(p []byte, emit func(at int, b byte)) {
	for at, b := range p {
		if t.state != plain {
			if t.sequence(b); t.state == plain && b == '\n' { // an unfinished one
				emit(at, b)
			}
			continue
		}
		if t.returned && b != '\n' && b != '\r' { // it went back to the beginning of the line
			emit(at, '\r')
		}
		if t.returned = b == '\r'; t.returned {
			continue
		}
		switch {
		case b == 0x1b:
			t.state = escape
		case b >= 0x20 && b != 0x7f, b == '\n', b == '\t':
			emit(at, b)
		}
	}
}

// sequence goes through an escape sequence.
func (t *text) sequence(b byte) {
	if b == cancels || b == substitute {
		t.state = plain
		return
	}
	switch t.state {
	case escape:
		switch b {
		case '[':
			t.state = csi
		case ']', 'P', '_', '^', 'X':
			t.state, t.command, t.length = str, b == ']', 0
		case '(', ')', '*', '+', '#', '%', ' ':
			t.state = skip
		case 0x1b:
		default:
			t.state = plain
		}
	case csi:
		switch {
		case b == 0x1b:
			t.state = escape
		case b >= 0x40 && b <= 0x7e:
			t.state = plain
		}
	case str:
		t.length++
		switch {
		case b == 0x1b:
			t.state = strEsc
		case b == '\a', b == '\n' && t.command, t.length == maxString:
			t.state = plain
		}
	case strEsc:
		t.state = plain
		if b != '\\' { // another sequence has begun
			t.state = escape
			t.sequence(b)
		}
	case skip:
		t.state = plain
	}
}

// echoOf is what a terminal in line mode shows of input, as text.
func echoOf(input []byte) (shown []byte) {
	for _, b := range input {
		switch {
		case b == '\r' || b == '\n':
			shown = append(shown, '\n')
		case b >= 0x20 && b != 0x7f, b == '\t':
			shown = append(shown, b)
		default:
			shown = append(shown, '^', b^0x40)
		}
	}
	return shown
}
