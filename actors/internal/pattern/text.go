package pattern

// text turns output into text: it leaves out escape sequences and control characters, and of \r\n the \r. It may be given output in any
// pieces.
type text struct {
	state    state
	returned bool // the last character was a \r, which counts unless \n follows
}

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
			t.sequence(b)
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
	switch t.state {
	case escape:
		switch b {
		case '[':
			t.state = csi
		case ']', 'P', '_', '^', 'X':
			t.state = str
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
		switch b {
		case 0x1b:
			t.state = strEsc
		case '\a':
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
