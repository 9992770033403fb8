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
	var kept []rune
	painted := false
	runes := []rune(row)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '\x1b':
			end := sequence(runes[i:])
			if colour && end > 2 && runes[i+1] == '[' && runes[i+end-1] == 'm' {
				kept = append(kept, runes[i:i+end]...)
				painted = true
			}
			i += end - 1
		case r == '\b':
			kept = kept[:max(0, len(kept)-1)]
		case r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r):
			kept = append(kept, r)
		}
	}
	if painted {
		return string(kept) + "\x1b[0m"
	}
	return string(kept)
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
