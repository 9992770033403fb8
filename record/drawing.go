package record

import "strings"

// Drawing lets only that of a recorded output pass which draws on a terminal. It leaves out what asks the terminal for an answer, which would
// then stand at the prompt of the shell behind it, and texts to the terminal: titles, the clipboard, images. It is fed in pieces.
type Drawing struct {
	state drawing
	held  []byte // an escape sequence that has no end yet
}

type drawing int

const (
	plain    drawing = iota
	escape           // behind ESC
	control          // in a control sequence
	text             // in a text to the terminal, which is left out
	textStop         // behind ESC in such a text
	latin            // behind 0xc2, the first byte of the C1 controls in UTF-8
)

// maxSequence bounds a control sequence; a longer one is left out.
const maxSequence = 256

// Append appends what may pass.
func (d *Drawing) Append(b []byte, output string) []byte {
	for i := 0; i < len(output); i++ {
		b = d.next(b, output[i])
	}
	return b
}

func (d *Drawing) next(b []byte, c byte) []byte {
	switch d.state {
	case escape:
		return d.escaped(b, c)
	case control:
		return d.controlled(b, c)
	case text, textStop:
		switch {
		case c == 0x07 || c == 0x18 || c == 0x1a || d.state == textStop && c == '\\':
			d.state = plain
		case d.state == textStop: // another sequence has begun
			d.held = append(d.held[:0], 0x1b)
			return d.escaped(b, c)
		case c == 0x1b:
			d.state = textStop
		}
		return b
	case latin:
		d.state = plain
		if c >= 0x80 && c < 0xa0 { // a C1 control
			return b
		}
		b = append(b, 0xc2)
	}
	switch c {
	case 0x1b:
		d.state, d.held = escape, append(d.held[:0], c)
	case 0xc2:
		d.state = latin
	case 0x05: // asks for the name of the terminal
	default:
		return append(b, c)
	}
	return b
}

// escaped handles what comes behind ESC.
func (d *Drawing) escaped(b []byte, c byte) []byte {
	switch {
	case c == 0x1b:
		d.state, d.held = escape, append(d.held[:0], c)
	case c == '[':
		d.state, d.held = control, append(d.held, c)
	case strings.IndexByte("]P_^Xk", c) >= 0: // k is the title of screen and tmux
		d.state = text
	case c >= 0x20 && c < 0x30 && len(d.held) < maxSequence: // more belongs to it
		d.state, d.held = escape, append(d.held, c)
	case c == 'Z' && len(d.held) == 1: // asks what the terminal is
		d.state = plain
	case c == 0x18 || c == 0x1a || c >= 0x7f:
		d.state = plain
	case c < 0x20: // it acts within the sequence
		d.state = escape
		return append(b, c)
	default:
		d.state = plain
		return append(append(b, d.held...), c)
	}
	return b
}

// controlled handles what is in a control sequence.
func (d *Drawing) controlled(b []byte, c byte) []byte {
	switch {
	case c == 0x1b:
		d.state, d.held = escape, append(d.held[:0], c)
	case c == 0x18 || c == 0x1a || c >= 0x7f:
		d.state = plain
	case c < 0x20:
		if c != 0x05 {
			return append(b, c)
		}
	case c < 0x40:
		if len(d.held) < maxSequence {
			d.held = append(d.held, c)
		}
	default:
		d.state = plain
		if len(d.held) < maxSequence && !asks(d.held[2:], c) {
			return append(append(b, d.held...), c)
		}
	}
	return b
}

// asks reports whether a control sequence makes the terminal answer, or acts on its window: device attributes, reports of status and position,
// requests for modes, for the size and for the keyboard, checksums.
func asks(parameters []byte, final byte) bool {
	switch final {
	case 'c', 'n', 't', 'x':
		return true
	case 'p', 'w', 'y', 'u', 'q', 'v': // those with $, *, ? or > before; others set the cursor's shape and margins
		return final != 'q' && strings.ContainsAny(string(parameters), "$*?>") || final == 'q' && strings.ContainsRune(string(parameters), '>') ||
			final == 'y' || final == 'w'
	case 'm':
		return strings.ContainsRune(string(parameters), '?') // XTQMODKEYS
	}
	return false
}
