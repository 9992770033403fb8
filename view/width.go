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
	case r >= 0x4e00 && r <= 0x9fff || r >= 0xac00 && r <= 0xd7a3: // the Han characters and Hangul syllables of daily use
		return 2
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

// widths are how many columns the latest characters take: to look that up takes longer than all else that is done with a
// character. Each is in the place that its last 8 bits say, with the columns in the first two bits.
type widths [256]uint32

func (w *widths) columns(r rune) int {
	if r < 0x300 {
		return 1
	}
	known := &w[uint8(r)]
	if *known>>2 != uint32(r) {
		*known = uint32(r)<<2 | uint32(columns(r))
	}
	return int(*known & 3)
}

// zeroWidthJoiner joins the next character, whatever its width, to the one before.
const zeroWidthJoiner = '\u200d'

// graphics are the DEC special graphics: what stands for the characters from 0x5f to 0x7e.
var graphics = [...]rune{' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼',
	'⎺', '⎻', '─', '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·'}
