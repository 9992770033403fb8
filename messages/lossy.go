package messages

import (
	"strings"
	"unicode/utf8"
)

// lossy turns bytes into text, with one U+FFFD for each broken character.
func lossy(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	b.Grow(len(p))
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		if r == utf8.RuneError && size == 1 {
			size = subpart(p)
		}
		b.WriteRune(r)
		p = p[size:]
	}
	return b.String()
}

// subpart is how many bytes one U+FFFD replaces at the start of p, which begins with a broken character: the longest valid
// beginning of a character, or else a single byte. The Unicode standard recommends this (chapter 3, "U+FFFD
// Substitution of Maximal Subparts").
func subpart(p []byte) int {
	low, high, more := byte(0x80), byte(0xBF), 0 // the range of the second byte, and how many bytes follow the first
	switch first := p[0]; {
	case first >= 0xC2 && first <= 0xDF:
		more = 1
	case first == 0xE0:
		low, more = 0xA0, 2
	case first == 0xED:
		high, more = 0x9F, 2
	case first >= 0xE1 && first <= 0xEF:
		more = 2
	case first == 0xF0:
		low, more = 0x90, 3
	case first == 0xF4:
		high, more = 0x8F, 3
	case first >= 0xF1 && first <= 0xF3:
		more = 3
	}
	n := 1
	for ; n <= more && n < len(p) && p[n] >= low && p[n] <= high; n++ {
		low, high = 0x80, 0xBF
	}
	return n
}
