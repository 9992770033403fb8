package messages

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Display is a command as it is shown to a person: one line, quoted so that bash, in a UTF-8 locale, reads the same
// words. Characters that are invisible, or that move or cover visible ones, are escaped as in $'\u202e'. So are letters that
// are written from right to left, letters that look like Latin ones and stand beside one and, in the name of the program,
// all characters beyond ASCII.
func Display(argv []string) string {
	var b strings.Builder
	for i, word := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		displayWord(&b, word, i == 0)
	}
	return b.String()
}

// reserved are words that a shell does not read as the name of a program where it expects one.
var reserved = []string{"!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
	"select", "then", "time", "until", "while", "{", "}"}

func displayWord(b *strings.Builder, word string, program bool) {
	bare, escape := word != "" && !(program && (slices.Contains(reserved, word) || strings.ContainsRune(word, '='))), false
	previous := ' '
	for i, r := range word {
		bare = bare && plain(r)
		if hidden(word[i:], r, previous) || program && r > unicode.MaxASCII {
			escape = true
			break
		}
		previous = r
	}
	switch {
	case escape:
		b.WriteString("$'")
		escapeInto(b, word, program)
		b.WriteByte('\'')
	case bare:
		b.WriteString(word)
	default:
		b.WriteByte('\'')
		b.WriteString(strings.ReplaceAll(word, "'", `'\''`))
		b.WriteByte('\'')
	}
}

// plain reports whether a shell takes a character literally wherever it stands in a word.
func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%_+=:,./-", r)
}

// hidden reports whether a character must be escaped to be seen. rest begins with it; a byte that is no UTF-8 is hidden.
func hidden(rest string, r, previous rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7f
	case r == utf8.RuneError && !strings.HasPrefix(rest, "\uFFFD"):
		return true
	case !unicode.IsPrint(r) || slices.Contains(blanks, r):
		return true
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	case unicode.IsMark(r): // one mark may stand on a letter; further ones, or one on anything else, can cover other characters
		return !unicode.IsLetter(previous) || unicode.In(r, unicode.Me, strokes)
	case unicode.In(r, vowels):
		return !unicode.In(previous, leads)
	case unicode.In(r, finals):
		return !unicode.In(previous, vowels)
	case unicode.In(r, backwards, oversized):
		return true
	}
	next, _ := utf8.DecodeRuneInString(rest[utf8.RuneLen(r):])
	return Lookalike(r) && (latin(previous) || latin(next))
}

var (
	// backwards are the blocks of letters that are written from right to left. A terminal may reverse everything between two of them.
	backwards = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x590, Hi: 0x8ff, Stride: 1}, {Lo: 0xfb1d, Hi: 0xfdff, Stride: 1}, {Lo: 0xfe70, Hi: 0xfeff, Stride: 1}},
		R32: []unicode.Range32{{Lo: 0x10800, Hi: 0x10fff, Stride: 1}, {Lo: 0x1e800, Hi: 0x1efff, Stride: 1}}}
	// strokes are marks that are drawn through their letter.
	strokes = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x334, Hi: 0x338, Stride: 1}, {Lo: 0x20d2, Hi: 0x20d3, Stride: 1},
		{Lo: 0x20d8, Hi: 0x20da, Stride: 1}, {Lo: 0x20e5, Hi: 0x20eb, Stride: 1}}}
	// leads, vowels and finals are the parts of Korean syllables. A terminal draws vowels and finals over the letter before.
	leads  = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x1100, Hi: 0x115e, Stride: 1}, {Lo: 0xa960, Hi: 0xa97c, Stride: 1}}}
	vowels = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x1161, Hi: 0x11a7, Stride: 1}, {Lo: 0xd7b0, Hi: 0xd7c6, Stride: 1}}}
	finals = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x11a8, Hi: 0x11ff, Stride: 1}, {Lo: 0xd7cb, Hi: 0xd7fb, Stride: 1}}}
	// oversized characters are drawn wider than terminals count, over what follows them.
	oversized = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x2e3a, Hi: 0x2e3b, Stride: 1}}, R32: []unicode.Range32{{Lo: 0x12000, Hi: 0x1254f, Stride: 1}}}
)

// Lookalike reports whether a letter can be mistaken for a Latin one when it stands beside one.
func Lookalike(r rune) bool {
	return unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu) ||
		r >= 0x250 && r < 0x2b0 || r >= 0xff00 && r < 0xff5f || r >= 0x1d400 && r < 0x1d800 // phonetic, wide, mathematical
}

func latin(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// blanks are characters that count as printing but show nothing, besides those that Unicode calls ignorable.
var blanks = []rune{0x2800, 0xfffc, 0x1d159, 0x16fe4, 0x1bca0, 0x1bca1, 0x1bca2, 0x1bca3}

// escapeInto writes a word as it stands inside $'…'.
func escapeInto(b *strings.Builder, word string, all bool) {
	previous := ' '
	for i, r := range word {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case hidden(word[i:], r, previous) || all && r > unicode.MaxASCII:
			b.WriteString(escaped(word[i:], r))
			r = ' ' // what stands on an escaped letter is escaped, too
		default:
			b.WriteRune(r)
		}
		previous = r
	}
}

func escaped(rest string, r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r == '\r':
		return `\r`
	case r == 0x1b:
		return `\e`
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r == utf8.RuneError && !strings.HasPrefix(rest, "\uFFFD"):
		return fmt.Sprintf(`\x%02x`, rest[0])
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Visible turns a text from another author, such as a justification, into one line in which every character can be
// seen.
func Visible(text string) string {
	var b strings.Builder
	previous := ' '
	for i, r := range text {
		if hidden(text[i:], r, previous) {
			b.WriteString(escaped(text[i:], r))
			r = ' '
		} else {
			b.WriteRune(r)
		}
		previous = r
	}
	return b.String()
}
