package execbus

import (
	"strings"
	"unicode"
)

// CleanLine makes a line of a command's output safe to show to a person among other text. It removes what would move the cursor,
// change the terminal, ring its bell or turn the direction of the text. Text that a carriage return or a backspace overwrites is left
// out. Colours stay if colour is set, and then end with the line. The sequences must be whole: a line cut in the middle of one loses
// no more than that sequence.
func CleanLine(row string, colour bool) string {
	row = strings.TrimRight(row, "\r\n")
	if i := strings.LastIndexByte(row, '\r'); i >= 0 {
		row = row[i+1:]
	}
	var kept []string // characters, and sequences that set colours
	var visible []int // where its characters are
	painted := false
	runes := []rune(row)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '\x1b':
			end := sequence(runes[i:])
			if colour && paints(runes[i:i+end]) {
				kept = append(kept, string(runes[i:i+end]))
				painted = true
			}
			i += end - 1
		case r == '\b':
			if last := len(visible) - 1; last >= 0 { // a sequence takes no place, and half of one could do anything
				kept[visible[last]], visible = "", visible[:last]
			}
		case r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r):
			visible = append(visible, len(kept))
			kept = append(kept, string(r))
		}
	}
	if painted {
		kept = append(kept, "\x1b[0m")
	}
	return strings.Join(kept, "")
}

// paints reports whether a sequence does no more than set colours. With other signs before the m it changes the keyboard.
func paints(sequence []rune) bool {
	text, is := strings.CutPrefix(string(sequence), "\x1b[")
	text, ends := strings.CutSuffix(text, "m")
	return is && ends && strings.Trim(text, "0123456789;:") == ""
}

// sequence returns the length of the escape sequence at the beginning of runes.
func sequence(runes []rune) int {
	if len(runes) < 2 {
		return len(runes)
	}
	switch runes[1] {
	case '[': // parameters, then one letter or sign
		for i, r := range runes[2:] {
			if r >= 0x40 && r <= 0x7e {
				return i + 3
			}
		}
		return len(runes)
	case ']', 'P', '_', '^', 'X': // text up to BEL or ESC \
		for i, r := range runes[2:] {
			if r == '\a' {
				return i + 3
			}
			if r == '\\' && runes[i+1] == '\x1b' {
				return i + 3
			}
		}
		return len(runes)
	case '(', ')', '*', '+', '#', '%', ' ':
		return min(3, len(runes))
	default:
		return 2
	}
}
