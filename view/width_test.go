package view

import (
	"testing"
	"unicode"

	"golang.org/x/text/width"
	"pgregory.net/rapid"
)

// Which characters take two columns without a look into the tables is right for each of them.
func TestColumnsOfHanAndHangul(t *testing.T) {
	t.Parallel()
	for _, block := range [][2]rune{{0x4e00, 0x9fff}, {0xac00, 0xd7a3}} {
		for r := block[0]; r <= block[1]; r++ {
			wide := width.LookupRune(r).Kind() == width.EastAsianWide && !unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf)
			if !wide || columns(r) != 2 {
				t.Fatalf("%U takes %d columns", r, columns(r))
			}
		}
	}
}

// What is remembered of one character is never taken for another, in whatever order they come.
func TestColumnsAreRemembered(t *testing.T) {
	t.Parallel()
	samePlace := rapid.Custom(func(t *rapid.T) rune {
		return rapid.SampledFrom([]rune{0x301, 0x401, 0x1f301, 0x3001, 0x2501, 0x2701, 0x5101, 0xfe01, 0xe0101, 0x101, 'A', 0x200d, 0x20d, 0x300d}).Draw(t, "r")
	})
	rapid.Check(t, func(t *rapid.T) {
		var w widths
		for _, r := range rapid.SliceOf(rapid.OneOf(samePlace, rapid.Rune())).Draw(t, "characters") {
			if got, want := w.columns(r), columns(r); got != want {
				t.Fatalf("%U takes %d columns, want %d", r, got, want)
			}
		}
	})
}
