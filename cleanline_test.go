package execbus_test

import (
	"regexp"
	"testing"

	"github.com/execbus/execbus"
)

func TestCleanLine(t *testing.T) {
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
		{"\x1b[2m\bJ", "J", "\x1b[2mJ\x1b[0m"},
		{"ab\x1b[1;38:5:9m\bc", "ac", "a\x1b[1;38:5:9mc\x1b[0m"},
		{"\x1b[>4;2mx", "x", "x"},
		{"\x1b[\x1b(0mx", "x", "x"},
		{"a\u202egnp.exe\u2069", "agnp.exe", "agnp.exe"},
		{"\xff", "\ufffd", "\ufffd"},
		{"\u009b31mx", "31mx", "31mx"}, // here one character begins the sequence; without that character it is text
	} {
		if got := execbus.CleanLine(c.row, false); got != c.plain {
			t.Errorf("%q becomes %q, want %q", c.row, got, c.plain)
		}
		if got := execbus.CleanLine(c.row, true); got != c.coloured {
			t.Errorf("%q becomes %q in colour, want %q", c.row, got, c.coloured)
		}
	}
}

func FuzzCleanLine(f *testing.F) {
	f.Add("\x1b[31mred\x1b]0;x\a")
	f.Add("\x1b[2m\bJ")
	paint := regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	f.Fuzz(func(t *testing.T, row string) {
		for _, clean := range []string{execbus.CleanLine(row, false), paint.ReplaceAllString(execbus.CleanLine(row, true), "")} {
			for _, r := range clean {
				if r < ' ' && r != '\t' || r == 0x7f {
					t.Errorf("%q becomes %q", row, clean)
				}
			}
		}
	})
}
