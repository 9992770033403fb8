package view

import (
	"unicode"

	"golang.org/x/text/width"
)

// columns is how many columns a character takes: none for those that combine with the one before, two for wide ones. Where a
// terminal has the choice, it is one.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7ff: // the later parts of a Hangul syllable
		return 0
	case r == zeroWidthJoiner || unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Zl, unicode.Zp):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// zeroWidthJoiner joins the next character, whatever its width, to the one before.
const zeroWidthJoiner = '\u200d'

// graphics are the DEC special graphics: what stands for the characters from 0x5f to 0x7e.
var graphics = [...]rune{' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼',
	'⎺', '⎻', '─', '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·'}
