package view

import (
	"testing"

	"github.com/execbus/execbus/messages"
)

// What sequences do, one at a time. tmux is asked the same where there is one; see the random streams.
func TestSequences(t *testing.T) {
	t.Parallel()
	size := messages.Size{Rows: 4, Cols: 8}
	for _, c := range []struct{ what, output, want string }{
		{"pending wrap", "12345678\r\nx", "12345678\nx\n"},
		{"backspace behind the last column", "12345678\bx", "1234567x\n"},
		{"backspace over a wrap", "123456789\b\bx", "1234567x\n9\n"},
		{"backspace at a row that was not wrapped", "1\r\n\b\bx", "1\nx\n"},
		{"no wrap", "\x1b[?7l1234567890", "12345670\n"},
		{"insert mode", "bc\r\x1b[4ha\x1b[4lX", "aXc\n"},
		{"origin mode", "\x1b[2;3r\x1b[?6h\x1b[1;1Ha\x1b[9;2Hb", "\na\n b\n"},
		{"margins move the cursor", "abc\x1b[2;3rx", "xbc\n"},
		{"margins scroll", "1\r\n2\r\n3\x1b[2;3r\x1b[3;1H\n4", "1\n3\n4\n"},
		{"reverse index in margins", "1\r\n2\r\n3\x1b[2;3r\x1b[2;1H\x1bM4", "1\n4\n2\n"},
		{"scroll up", "1\r\n2\r\n3\x1b[2S", "3\n"},
		{"scroll down", "1\r\n2\r\n3\x1b[2T", "\n\n1\n2\n"},
		{"insert rows", "1\r\n2\r\n3\x1b[2;1H\x1b[L", "1\n\n2\n3\n"},
		{"delete rows", "1\r\n2\r\n3\x1b[1;1H\x1b[2M", "3\n"},
		{"rows outside of the margins", "1\r\n2\r\n3\x1b[2;3r\x1b[1;1H\x1b[M\x1b[L", "1\n2\n3\n"},
		{"insert characters", "abcd\x1b[2G\x1b[2@X", "aX bcd\n"},
		{"insert over the edge", "1234567日\x1b[1;1H123456日\x1b[1G\x1b[@x", "x123456\n日\n"},
		{"delete characters", "abcdef\x1b[2G\x1b[2P", "adef\n"},
		{"delete half of a wide one", "日本x\x1b[2G\x1b[Py", " y x\n"},
		{"erase characters", "abcdef\x1b[2G\x1b[2X", "a  def\n"},
		{"erase half of a wide one", "日本\x1b[2G\x1b[2X", ""},
		{"erase to the end", "abc\r\ndef\r\nghi\x1b[2;2H\x1b[J", "abc\nd\n"},
		{"erase to the beginning", "abc\r\ndef\r\nghi\x1b[2;2H\x1b[1J", "\n  f\nghi\n"},
		{"erase the line to the beginning", "abc\x1b[2G\x1b[1K", "  c\n"},
		{"tab stops", "\x1b[3g\x1b[1;4H\x1bH\r\tx\r\x1b[7G\x1b[Zy\x1b[1;4H\x1b[g\r\tz", "   y   z\n"},
		{"graphics in G1", "\x1b)0\x0eq\x0fq\x1b)B\x0eq", "─qq\n"},
		{"graphics in G0", "\x1b(0aq`~", "▒─◆·\n"},
		{"saved cursor", "\x1b[2;3H\x1b(0\x1b7\x1b[H\x1b(Ba\x1b8q", "a\n  ─\n"},
		{"saved cursor, the other way", "ab\x1b[s\x1b[3;3H\x1b[ucd", "abcd\n"},
		{"repeat", "ab\x1b[2bc", "abbbc\n"},
		{"repeat up to the edge", "ab\x1b[20bc", "abbbbbbb\nc\n"},
		{"repeat behind something else", "a\r\x1b[3b", "a\n"},
		{"alternate screen with cursor", "ab\x1b[?1049hcd\x1b[?1049lef", "abef\n"},
		{"alternate screen without", "ab\x1b[?1047hcd\x1b[?1047lef", "ab  ef\n"},
		{"alternate screen without, behind one with", "ab\x1b[?1049h\x1b[?1049lcd\x1b[?1047h\x1b[?1047lef", "abcdef\n"},
		{"erase up to half of a wide one", "日本x\x1b[G\x1b[3X", "    x\n"},
		{"a sign that comes late", "\x1b[7?l1234567890", "12345678\n90\n"},
		{"signs that do not belong together", "\x1b#(0q", "q\n"},
		{"a wrap in front of deleted rows", "12345678x\x1b[M\r\b\by", "12345678\ny\n"},
		{"a wrap above of margins", "\x1b[?1049h\x1b[2;3r\x1b[1;1H12345678x\x1b[3;1H\n\x1b[2;1H\b\bz", "12345678\nz\n"},
		{"alignment", "\x1b#8\x1b[2J\x1b[Hx", "x\n"},
		{"reset", "\x1b[4h\x1b[?6h\x1b[2;3r\x1b(0abc\x1bcq\x1b[Hx", "x\n"},
		{"columns and rows", "\x1b[2d\x1b[3Ga\x1b[E\x1b[Fb\x1b[`c\x1b[1;5fd", "    d\nc a\n"},
		{"too many signs", "\x1b[1;2\x1b[1<2Ka\x1b[1!2Kb\x1b((Bc\x1b[ !pd", "abcd\n"},
		{"too many parameters", "abcd\r\x1b[;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;Ke\x1b[99999999Kf", "efcd\n"},
		{"a cancelled sequence", "a\x1b[2\x18Kb\x1b]0;x\x1ac\x1bP\x18d", "aKbcd\n"},
		{"joined characters", "👩\u200d🚀x\x1b[1;9Hy", "👩\u200d🚀x    y\n"},
		{"wide at the edge", "1234567日x", "1234567\n日x\n"},
		{"fullwidth", "ＡＢx\x1b[1;6Hy", "ＡＢxy\n"},
		{"a Hangul syllable in parts", "\u1112\u1161\u11abx\x1b[1;4Hy", "\u1112\u1161\u11abxy\n"},
	} {
		s := NewScreen(size)
		s.Write([]byte(c.output))
		if s.Text() != c.want {
			t.Errorf("%s: %q shows %q, want %q", c.what, c.output, s.Text(), c.want)
		}
		checkBounds(t, s.terminal)
	}
}
