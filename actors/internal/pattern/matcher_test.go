package pattern

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// push pushes pieces until the pattern is found.
func push(t interface{ Fatal(...any) }, expression, input string, pieces ...string) (end int64, found bool) {
	m, err := New(expression, []byte(input), 0)
	if err != nil {
		t.Fatal(err)
	}
	offset := int64(0)
	for _, piece := range pieces {
		if end, found = m.Push(offset, []byte(piece)); found {
			return end, true
		}
		offset += int64(len(piece))
	}
	return 0, false
}

func TestPatternsAreComparedWithText(t *testing.T) {
	long := strings.Repeat("x", 3*messages.MaxPatternMatch)
	for _, c := range []struct {
		name, expression, input string
		pieces                  []string
		end                     int64 // 0: it is not found
	}{
		{"plain", `listening on \d`, "", []string{"server listening on 8", "080"}, 21},
		{"nothing", `listening`, "", []string{"listenin", "-g"}, 0},
		{"across pieces", `listening`, "", []string{"lis", "", "ten", "ing"}, 9},
		{"colours", `all passed`, "", []string{"\x1b[32mall\x1b[", "0m passed"}, 19},
		{"title", `^ready`, "", []string{"\x1b]0;ti", "tle\aready"}, 15},
		{"title with another end", `^ready`, "", []string{"\x1b]0;title\x1b", "\\ready"}, 16},
		{"title that is not finished", `(?m)^ready`, "", []string{"x\x1b]0;ti", "tle\nready"}, 16},
		{"title that is given up", `title|le x`, "", []string{"\x1b]0;tit\x18le x"}, 12},
		{"sequence that is given up", `^x`, "", []string{"\x1b[12\x1ax"}, 6},
		{"image with lines", `ready`, "", []string{"\x1bPready\n", "ready\x1b\\", "ready"}, 20},
		{"image that is not finished", `ready`, "", []string{"\x1bPready", strings.Repeat("x", maxString), "ready"}, maxString + 12},
		{"end of line", `(?m)^done$`, "", []string{"x\r\ndone\r", "\nz"}, 7},
		{"character set", `^ok`, "", []string{"\x1b(", "Bok"}, 5},
		{"overwritten", "5%\r10%", "", []string{"5%\r", "10%"}, 6},
		{"bell", `ab`, "", []string{"a\ab"}, 3},
		{"beginning", `^b`, "", []string{"a", "b"}, 0},
		{"beginning, later", `^b`, "", []string{long, "b" + long, "b"}, 0},
		{"line, later", `(?m)^b`, "", []string{long, "\n", "b"}, int64(len(long)) + 2},
		{"no line, later", `(?m)^b`, "", []string{long, "b"}, 0},
		{"word, later", `\bb`, "", []string{long, "b", " ", "b"}, int64(len(long)) + 3},
		{"at the first byte that is kept", `(?m)^x`, "", []string{long}, 1},
		{"long matches", `a[xb]+c`, "", []string{"a" + long[:5000], long[:3000] + "b", "c"}, 8003},
		{"long alternatives", `(?s)(q|p.{3})r{2}s`, "", []string{long, "p", "\n12", "r", "rs"}, int64(len(long)) + 7},
		{"far", `y`, "", []string{long, long, "y"}, 2*int64(len(long)) + 1},
		{"echo", `done`, "echo done\n", []string{"ech", "o done\r\n"}, 0},
		{"after the echo", `done`, "echo done\n", []string{"echo done\r\n", "done\r\n"}, 15},
		{"after the end of a line, and an echo", `done`, "echo done\n", []string{"\r\n", " echo done\r\n", "done\r\n"}, 18},
		{"no echo", `done`, "echo done\n", []string{"done"}, 4},
		{"half an echo", `echo it`, "echo done\n", []string{"echo i", "t"}, 7},
		{"echo of a control character", `C`, "\x03", []string{"^C"}, 0},
	} {
		end, found := push(t, c.expression, c.input, c.pieces...)
		if found != (c.end > 0) || end != c.end {
			t.Errorf("%s: %d, %v, want %d", c.name, end, found, c.end)
		}
	}
}

func TestTheEchoComesBehindWhatWasThere(t *testing.T) {
	m, err := New("done", []byte("done\n"), 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []struct {
		offset int64
		found  bool
	}{{4, false}, {10, true}} {
		if _, found := m.Push(piece.offset, []byte("done\r\n")); found != piece.found {
			t.Errorf("at %d: %v", piece.offset, found)
		}
	}
	if m, _ = New("done", []byte("done\n"), 4); m != nil {
		if _, found := m.Push(0, []byte("done")); !found {
			t.Error("what came before is taken for the echo")
		}
	}
}

func TestAHoleInTheOutputEndsTheText(t *testing.T) {
	m, err := New(`ab|^c`, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []struct {
		offset int64
		bytes  string
		found  bool
	}{{5, "a", false}, {7, "b", false}, {9, "c", false}, {10, "ab", true}} {
		if _, found := m.Push(piece.offset, []byte(piece.bytes)); found != piece.found {
			t.Errorf("%q at %d: %v", piece.bytes, piece.offset, found)
		}
	}
}

// Whatever way the bytes are split, the same is found.
func TestSplittingChangesNothing(t *testing.T) {
	expressions := []string{`ab+c`, `(?m)^ab`, `(?m)c\na`, `\bcab`, `a.c`, `(?s)a.{1,4}b`, `^ca`}
	rapid.Check(t, func(t *rapid.T) {
		expression := rapid.SampledFrom(expressions).Draw(t, "expression")
		var output string
		for _, piece := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", " ", "\r\n", "\x1b[1m", "\x1b]0;ab\a", "\a", "é"}), 0, 30).Draw(t, "output") {
			output += piece
		}
		whole := []string{output}
		var pieces []string
		for rest := output; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		_, want := push(t, expression, "", whole...)
		if _, found := push(t, expression, "", pieces...); found != want {
			t.Fatalf("%q in %q: %v, and %v in pieces %q", expression, output, want, found, pieces)
		}
	})
}

// A long flood in small pieces is found through, with the memory of a few matches.
func TestTheMemoryOfAMatcherIsBounded(t *testing.T) {
	m, err := New(`(?m)^needle$`, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	offset, line := int64(0), strings.Repeat("\x1b[mhay ", 9)+"\r\n"
	for range 20000 {
		if _, found := m.Push(offset, []byte(line)); found {
			t.Fatal("found")
		}
		offset += int64(len(line))
	}
	if cap(m.window) > 8*messages.MaxPatternMatch || cap(m.offsets) > 8*messages.MaxPatternMatch {
		t.Errorf("%d bytes, %d offsets", cap(m.window), cap(m.offsets))
	}
	if end, found := m.Push(offset, []byte("needle\r\n")); !found || end != offset+6 {
		t.Errorf("%d, %v, want %d", end, found, offset+6)
	}
}
