package view

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
	"pgregory.net/rapid"
)

var (
	terminalSize = messages.Size{Rows: 5, Cols: 20}
	pipes        = messages.Size{}
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, output string
		size         messages.Size
		want         string
	}{
		{"nothing", "", terminalSize, ""},
		{"lines", "one\r\ntwo\r\n", terminalSize, "one\ntwo\n"},
		{"no end of line", "$ ", terminalSize, "$"},
		{"lines of pipes", "one\ntwo\r\n\nthree", pipes, "one\ntwo\n\nthree"},
		{"a line feed alone", "one\ntwo", terminalSize, "one\n   two"},
		{"a progress bar", " 10%\r 20%\r100%\r\ndone\r\n", terminalSize, "100%\ndone\n"},
		{"a shorter one", "downloading\rdone\x1b[K\r\n", terminalSize, "done\n"},
		{"one that is erased", "50%\r\x1b[2Kdone\r\n", terminalSize, "done\n"},
		{"one that is covered with blanks", "downloading\r           \rok\r\n", terminalSize, "ok\n"},
		{"backspaces", "typp\b \bo |\b/\b-\b\\\b \r\n", terminalSize, "typo\n"},
		{"rows that are written again", "a: 1\r\nb: 1\r\n\x1b[2Aa: 2\x1b[K\x1b[B\rb: 2\r\n", terminalSize, "a: 2\nb: 2\n"},
		{"rows that are erased", "a: 1\r\nb: 1\r\n\x1b[2A\x1b[Jdone\r\n", terminalSize, "done\n"},
		{"rows that have become final", "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n\x1b[9Ax\r\n", terminalSize, "1\n2\nx\n4\n5\n6"},
		{"erased characters", "abcdef\x1b[5D\x1b[2P\x1b[C\x1b[X\r\n", terminalSize, "ad f\n"},
		{"inserted ones", "adef\x1b[3D\x1b[2@bc\r\n", terminalSize, "abcdef\n"},
		{"colours", "\x1b[1;31merror\x1b[0m: \x1b[38;5;9mno\x1b[m\r\n", terminalSize, "error: no\n"},
		{"a title", "\x1b]0;title\x07a\x1b]2;✓ two\x1b\\b\r\n", terminalSize, "ab\n"},
		{"texts for the terminal", "a\x1bPq#0;\x1b\\b\x1b_G x\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e\r\n", terminalSize, "abcde\n"},
		{"a title that is not finished", "a\x1b]0;title\r\nb\r\n", terminalSize, "a\nb\n"},
		{"a text that is not finished", "a\x1bP" + strings.Repeat("x", maxString) + "yb\r\n", terminalSize, "ab\n"},
		{"an unfinished sequence", "a\x1b[31", terminalSize, "a"},
		{"an escape and a character", "a\x1b(Bb\x1b=c\x1b7\x1b8d\r\n", terminalSize, "abcd\n"},
		{"control characters", "a\x00b\a\x7fc\u0085\u009b31md\r\n", terminalSize, "abc31md\n"},
		{"what is no UTF-8", "a\xffb\xe2\x82c\r\n", terminalSize, "a�b��c\n"},
		{"half a character at the end", "a\xe2\x82", terminalSize, "a�"},
		{"tabs", "a\tb\r\n\tx\r\n\t\r\n", terminalSize, "a\tb\n\tx\n\n"},
		{"tabs that are written into", "\tx\rab\r\n", terminalSize, "ab      x\n"},
		{"tabs at the edge", "1234567890123456789\tx\r\n", terminalSize, "1234567890123456789\tx\n"},
		{"tabs of pipes", "a\tb\n", pipes, "a\tb\n"},
		{"a line longer than the terminal is wide", "123456789012345678901234567890\r\nx\r\n", terminalSize, "123456789012345678901234567890\nx\n"},
		{"a line as long as the terminal is wide", "12345678901234567890\r\nx\r\n", terminalSize, "12345678901234567890\nx\n"},
		{"blanks where it is wrapped", "1234567890123456789      x\r\n", terminalSize, "1234567890123456789      x\n"},
		{"a wrapped line that is written again", "12345678901234567890abc\x1b[A\rshort\x1b[K\r\n\x1b[K", terminalSize, "short\n"},
		{"one whose rest stays", "12345678901234567890abc\x1b[A\rshort\x1b[K\r\n", terminalSize, "short\nabc"},
		{"wide characters", "日本語\r\n", terminalSize, "日本語\n"},
		{"a wide character over the edge", "1234567890123456789日\r\n", terminalSize, "1234567890123456789日\n"},
		{"a wide character that is half overwritten", "日本\rx\r\n", terminalSize, "x 本\n"},
		{"one that is by a narrow one beyond ASCII", "日本\rй\r\n", terminalSize, "й 本\n"},
		{"one that is by a wide one", "a日本\r語\r\n", terminalSize, "語 本\n"},
		{"characters that combine", "e\u0301 👨\u200d👩\u200d👧 ❤\ufe0f\r\n", terminalSize, "e\u0301 👨\u200d👩\u200d👧 ❤\ufe0f\n"},
		{"line graphics", "\x1b(0lqk\x1b(B\r\n", terminalSize, "┌─┐\n"},
		{"a full-screen program that has ended", "before\r\n\x1b[?1049h\x1b[Hscreen\x1b[?1049lafter\r\n", terminalSize, "before\nafter\n"},
		{"a full-screen program", "before\r\n\x1b[?1049h\x1b[Hold\x1b[Hnew", terminalSize, "before\nnew"},
		{"a screen that is cleared", "one\r\ntwo\r\n\x1b[H\x1b[2J\x1b[3Jthree\r\n", terminalSize, "one\ntwo\nthree\n"},
		{"a row at the bottom that is kept", "\x1b7\x1b[1;4r\x1b8\x1b7\x1b[5;1H[10%]\x1b8one\r\ntwo\r\n\x1b7\x1b[5;1H\x1b[K\x1b[r\x1b8\r\n", terminalSize, "one\ntwo\n\n"},
		{"blanks at the end", "a   \r\n  b  \n", pipes, "a\n  b\n"},
		{"empty lines", "\r\n\r\na\r\n\r\n\r\n", terminalSize, "\n\na\n\n\n"},
	} {
		if got := string(TextOf([]byte(c.output), c.size)); got != c.want {
			t.Errorf("%s: %q becomes %q, want %q", c.what, c.output, got, c.want)
		}
	}
}

// A prompt, a progress bar and what follows: the rest may be asked for at any time, and changes nothing.
func TestTextGoesOn(t *testing.T) {
	t.Parallel()
	text := NewText(messages.Size{Rows: 2, Cols: 20})
	var final []byte
	for _, step := range []struct{ output, final, rest string }{
		{"one\r\n", "", "one\n"},
		{"1", "", "one\n1"},
		{"0%\r20%", "", "one\n20%"},
		{"\r\nnext", "one\n", "20%\nnext"},
		{"\x1b[?1049hfull", "one\n", "20%\nnext\n\n    full"},
		{"\x1b[?1049l\r\n", "one\n20%\n", "next\n"},
	} {
		final = text.Append(final, []byte(step.output))
		if string(final) != step.final {
			t.Errorf("behind %q %q is final, want %q", step.output, final, step.final)
		}
		if got := string(text.AppendRest(nil)); got != step.rest {
			t.Errorf("behind %q the rest is %q, want %q", step.output, got, step.rest)
		}
		if want := strings.Contains(step.output, "1049h"); text.FullScreen() != want {
			t.Errorf("behind %q full screen is %v", step.output, text.FullScreen())
		}
	}
}

// pieces are parts of output that matter to a terminal.
var pieces = rapid.OneOf(
	rapid.StringMatching(`[ -~]{0,30}`),
	rapid.String(),
	rapid.SampledFrom([]string{"\r", "\n", "\r\n", "\b", "\t", "\x1b", "\x1b[", "\x1b[?1049h", "\x1b[?1049l", "\x1b]0;✓ title", "\x07", "\x1b\\", "\x1bP", "\x18",
		"\x1b[K", "\x1b[J", "\x1b[2J", "\x1b[1;31m", "\x1b[4:3;38:2::1:2:3m", "\x1b[5A", "\x1b[3B", "\x1b[4C", "\x1b[2D", "\x1b[3;4H", "\x1b[2;3r", "\x1bM", "\x1bD",
		"\x1b[2L", "\x1b[2M", "\x1b[3P", "\x1b[3@", "\x1b[3X", "\x1b[2S", "\x1b[2T", "\x1b[4h", "\x1b[4l", "\x1b[?6h", "\x1b[?7l", "\x1b[?7h", "\x1b(0", "\x1b(B",
		"x\x1b[9b", "\x1b7", "\x1b8", "\x1bc", "\x1bH", "\x1b[3g", "\x1b[Z", "\x1b#8", "日本", "e\u0301", "\u200d", "👩\u200d🚀", "\xe2\x82", "\xff", "\x1b[22;0;0t", "\x1b[23;0;0t"}),
)

// cut draws places to cut output at.
func cut(t *rapid.T, output []byte) [][]byte {
	var parts [][]byte
	for len(output) > 0 {
		n := rapid.IntRange(1, min(len(output), 9)).Draw(t, "piece")
		parts = append(parts, append([]byte(nil), output[:n]...))
		output = output[n:]
	}
	return parts
}

func TestPiecesMakeNoDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		output := []byte(strings.Join(rapid.SliceOfN(pieces, 0, 30).Draw(t, "output"), ""))
		size := rapid.SampledFrom([]messages.Size{pipes, {Rows: 1, Cols: 1}, {Rows: 3, Cols: 7}, {Rows: 24, Cols: 80}}).Draw(t, "size")
		text, screen, whole := NewText(size), NewScreen(size), NewScreen(size)
		var got []byte
		for _, part := range cut(t, output) {
			got = text.Append(got, part)
			screen.Write(part)
			clear(part) // it is not ours any more
		}
		whole.Write(output)
		if got, want := string(text.AppendRest(got)), string(TextOf(output, size)); got != want {
			t.Fatalf("in pieces it is %q, whole %q", got, want)
		}
		if got, want := screen.ANSI()+screen.Title(), whole.ANSI()+whole.Title(); got != want {
			t.Fatalf("in pieces the screen is %q, whole %q", got, want)
		}
		checkText(t, text.AppendRest(got))
		checkScreen(t, screen)
	})
}

// fatal is what a test and a property have in common.
type fatal interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

// checkText finds what no text may have.
func checkText(t fatal, text []byte) {
	t.Helper()
	if !utf8.Valid(text) {
		t.Fatalf("%q is no UTF-8", text)
	}
	if i := strings.IndexFunc(string(text), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
		t.Fatalf("%q has a control character at %d", text, i)
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("10%\r\x1b[K20%\r\nrow\r\n\x1b[2A\x1b[Jnew\t日本e\u0301"), 3)
	f.Add([]byte("\x1b[?1049h\x1b[2;3r\x1b[5S\x1b[?1049l\x1bM\x1b[999999999A"), 1)
	f.Fuzz(func(t *testing.T, output []byte, at int) {
		for _, size := range []messages.Size{pipes, {Rows: 3, Cols: 5}, {Rows: 1, Cols: 1}} {
			whole := TextOf(output, size)
			checkText(t, whole)
			at := max(0, min(at, len(output)))
			text := NewText(size)
			parts := text.Append(text.Append(nil, output[:at]), output[at:])
			if parts = text.AppendRest(parts); string(parts) != string(whole) {
				t.Fatalf("in two pieces it is %q, whole %q", parts, whole)
			}
			checkBounds(t, text.terminal)
		}
	})
}

// Output costs no allocation for each line or sequence, whatever it is.
func TestViewsDoNotAllocateByTheLine(t *testing.T) {
	size := messages.Size{Rows: 24, Cols: 80}
	for what, line := range map[string]string{
		"plain": "the quick brown fox jumps over the lazy dog\r\n", "coloured": "\x1b[1;38;5;9mred\x1b[0m and not\r\n",
		"bar": "\r\x1b[K 50% |#####     |", "screen": "\x1b[3;7H\x1b[7mword\x1b[m\x1b[K", "scripts": "日本 é ї –\r\n",
	} {
		output := []byte(strings.Repeat(line, 10_000))
		text, screen, out := NewText(size), NewScreen(size), make([]byte, 0, 2*len(output))
		text.Append(out, output)
		screen.Write(output)
		if n := testing.AllocsPerRun(3, func() { text.Append(out, output) }); n > 10 {
			t.Errorf("the text of 10,000 %s lines costs %v allocations", what, n)
		}
		if n := testing.AllocsPerRun(3, func() { screen.Write(output) }); n > 10 {
			t.Errorf("a screen of 10,000 %s lines costs %v allocations", what, n)
		}
	}
}
