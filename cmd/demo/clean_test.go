package main

import (
	"slices"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ row, plain, coloured string }{
		{"text\r", "text", "text"},
		{"10%\r20%\r", "20%", "20%"},
		{"a\tb\x00\a\x7fc", "a\tbc", "a\tbc"},
		{"typp\bo", "typo", "typo"},
		{"\b\bx", "x", "x"},
		{"\x1b[31mred\x1b[0m", "red", "\x1b[31mred\x1b[0m\x1b[0m"},
		{"\x1b[2J\x1b[Hx\x1b[?25l", "x", "x"},
		{"\x1b]0;title\ax", "x", "x"},
		{"\x1b]52;c;aGk=\x1b\\x", "x", "x"},
		{"\x1bPdata\x1b\\x", "x", "x"},
		{"\x1b(Bx\x1b7\x1b", "x", "x"},
		{"\x1b[31", "", ""},
		{"\xff", "\ufffd", "\ufffd"},
		{"\u009b31mx", "31mx", "31mx"}, // here one character begins the sequence; without that character it is text
	} {
		if got := clean(c.row, false); got != c.plain {
			t.Errorf("%q becomes %q, want %q", c.row, got, c.plain)
		}
		if got := clean(c.row, true); got != c.coloured {
			t.Errorf("%q becomes %q in colour, want %q", c.row, got, c.coloured)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31mred\x1b]0;x\a")
	f.Fuzz(func(t *testing.T, row string) {
		for _, r := range clean(row, false) {
			if r < ' ' && r != '\t' || r == 0x7f {
				t.Errorf("%q becomes %q", row, clean(row, false))
			}
		}
		_ = clean(row, true)
	})
}

func TestRanges(t *testing.T) {
	t.Parallel()
	at := func(offset int64, most int) messages.ReadOutput {
		return messages.ReadOutput{Offset: &offset, Max: most}
	}
	for text, want := range map[string]messages.ReadOutput{
		"":          {Tail: defaultTail},
		"100":       {Tail: 100},
		"0-":        at(0, 0),
		"5-7":       at(5, 2),
		"0-9999999": at(0, messages.MaxRead),
	} {
		got, err := parseRange(text)
		if err != nil || got.Tail != want.Tail || got.Max != want.Max || (got.Offset == nil) != (want.Offset == nil) ||
			got.Offset != nil && *got.Offset != *want.Offset {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "-", "-5", "0", "7-5", "5-5", "5-x", "1-2-3", "99999999"} {
		if got, err := parseRange(text); err == nil {
			t.Errorf("%q is understood as %+v", text, got)
		}
	}
}

func TestHistoryRemembersNoRepetitions(t *testing.T) {
	t.Parallel()
	h := &history{keyboard: &keyboard{}}
	for _, entry := range []string{"a", "", "a", "b", "a"} {
		h.Add(entry)
	}
	if want := []string{"a", "b", "a"}; !slices.Equal(h.entries, want) {
		t.Errorf("%q", h.entries)
	}
	for range historyLength {
		h.Add("x")
		h.Add("y")
	}
	if h.Len() != historyLength || h.At(0) != "y" || h.At(1) != "x" {
		t.Errorf("%d entries, then %q", h.Len(), h.At(0))
	}
}
