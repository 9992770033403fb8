package ptyio

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
	"pgregory.net/rapid"
)

// deltasOf pushes one batch.
func deltasOf(s *Splitter, batch string) []string {
	var deltas []string
	s.Push([]byte(batch), func(delta []byte) { deltas = append(deltas, string(delta)) })
	return deltas
}

// lengths writes the sizes of deltas as text.
func lengths(deltas []string) string {
	sizes := make([]int, len(deltas))
	for i, d := range deltas {
		sizes[i] = len(d)
	}
	return fmt.Sprint(sizes)
}

func TestCutNeverDividesACharacter(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  int
	}{
		{"abcdef", 4, 4},
		{"abc", 4, 3},
		{"éé", 3, 2},
		{"é", 3, 2},
		{"ab€", 4, 2},
		{"a😀", 4, 1},
		{"😀😀", 4, 4},
		{"", 4, 0},
		{"\xc3", 4, 0},
		{"ab\xc3", 4, 2},
	} {
		if got := cut([]byte(c.in), c.limit); got != c.want {
			t.Errorf("cut(%q, %d) = %d, want %d", c.in, c.limit, got, c.want)
		}
	}
}

func TestOnlyTheBeginningOfACharacterIsUnfinished(t *testing.T) {
	for in, want := range map[string]int{
		"":                 0,
		"a":                0,
		"é":                0,
		"\xc3":             1, // of é
		"a\xe2\x82":        2, // of €
		"a\xf0\x9f\x98":    3, // of 😀
		"\xf0\x9f\x98\x80": 0,
		"\xff":             0,
		"\xc0":             0, // begins nothing
		"\xf5":             0,
		"\xe0\x80":         0, // would be too long a form
		"\xed\xa0":         0, // half of a surrogate pair
		"\x80\x80\x80\x80": 0,
		"\xe2\x82\xff":     0,
		"\xff\xe2":         1,
	} {
		if got := Unfinished([]byte(in)); got != want {
			t.Errorf("Unfinished(%q) = %d, want %d", in, got, want)
		}
	}
}

func TestSplitterLimitsDeltas(t *testing.T) {
	var s Splitter
	if got, want := lengths(deltasOf(&s, strings.Repeat("a", 20_000))), "[8192 8192 3616]"; got != want {
		t.Errorf("ASCII: %s, want %s", got, want)
	}
	if got, want := lengths(deltasOf(&s, "a"+strings.Repeat("é", 5000))), "[8191 1810]"; got != want {
		t.Errorf("two-byte characters: %s, want %s", got, want)
	}
}

func TestSplitterSendsInvalidRunsWhole(t *testing.T) {
	for _, in := range []string{
		"\xffabc",
		strings.Repeat("\xff", 1024),
		strings.Repeat("a", 4096) + "\xff" + strings.Repeat("a", 4095),
		strings.Repeat("\x80", messages.MaxOutputDelta),
	} {
		var s Splitter
		if got := deltasOf(&s, in); len(got) != 1 || got[0] != in || s.Pending() != 0 {
			t.Errorf("%.10q…: deltas of %s bytes, %d pending", in, lengths(got), s.Pending())
		}
	}
}

func TestSplitterJoinsACharacterThatCameInPieces(t *testing.T) {
	var s Splitter
	for _, step := range []struct {
		push    string
		want    []string
		pending int
	}{
		{"ab\xf0\x9f", []string{"ab"}, 2},
		{"", nil, 2},
		{"\x98", nil, 3},
		{"\x80cd\xc3", []string{"😀cd"}, 1},
		{"\xc3", []string{"\xc3"}, 1}, // the first byte did not begin a character after all
		{"\xa9", []string{"é"}, 0},
	} {
		got := deltasOf(&s, step.push)
		if !slices.Equal(got, step.want) || s.Pending() != step.pending {
			t.Errorf("after %q: %q and %d pending, want %q and %d",
				step.push, got, s.Pending(), step.want, step.pending)
		}
	}
}

func TestSplitterFlushGivesUpTheHeldBytes(t *testing.T) {
	var s Splitter
	if got := s.Flush(); got != nil {
		t.Errorf("nothing was held, got %q", got)
	}
	deltasOf(&s, "a\xe2\x82")
	if got := s.Flush(); string(got) != "\xe2\x82" || s.Pending() != 0 {
		t.Errorf("got %q, %d pending", got, s.Pending())
	}
	if got := deltasOf(&s, "\xacb"); !slices.Equal(got, []string{"\xacb"}) {
		t.Errorf("the rest of the character became %q", got)
	}
}

func TestSplitterKeepsNothingOfABatch(t *testing.T) {
	var s Splitter
	var out []byte
	for _, text := range []string{"ab\xe2", "\x82\xaccd", strings.Repeat("x", 9000) + "\xe2"} {
		batch := []byte(text)
		s.Push(batch, func(delta []byte) { out = append(out, delta...) })
		clear(batch)
	}
	rest := s.Flush()
	deltasOf(&s, "\xff\xff\xe2") // this must not change the flushed delta
	if got, want := string(append(out, rest...)), "ab€cd"+strings.Repeat("x", 9000)+"\xe2"; got != want {
		t.Errorf("got %.20q…, want %.20q…", got, want)
	}
}

// checkSplitter pushes the batches, with a Flush after those that flush selects, and checks the rules that always hold.
func checkSplitter(t rapid.TB, batches [][]byte, flush func(i int) bool) {
	t.Helper()
	var s Splitter
	var in, out []byte
	for i, batch := range batches {
		in = append(in, batch...)
		s.Push(batch, func(delta []byte) {
			if len(delta) == 0 || len(delta) > messages.MaxOutputDelta {
				t.Fatalf("a delta of %d bytes", len(delta))
			}
			out = append(out, delta...)
		})
		rest := in[len(out):]
		if s.Pending() != len(rest) {
			t.Fatalf("%d bytes pending, %d missing", s.Pending(), len(rest))
		}
		if len(rest) > 0 && (len(rest) >= utf8.UTFMax || !utf8.RuneStart(rest[0]) || utf8.FullRune(rest)) {
			t.Fatalf("holds %q", rest)
		}
		if flush(i) {
			out = append(out, s.Flush()...)
		}
	}
	out = append(out, s.Flush()...)
	if !bytes.Equal(in, out) {
		t.Fatalf("in %q, out %q", in, out)
	}
}

func TestSplitterLosesNothingAndHoldsLittle(t *testing.T) {
	pieces := []string{
		"a", "é", "€", "😀", "\xff", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f", "\xed\xa0", "\x9f\x98",
		strings.Repeat("x", messages.MaxOutputDelta-2), strings.Repeat("😀", messages.MaxOutputDelta/4), strings.Repeat("\xe2", 5000),
	}
	rapid.Check(t, func(t *rapid.T) {
		var batches [][]byte
		for _, batch := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 5), 1, 8).Draw(t, "batches") {
			batches = append(batches, []byte(strings.Join(batch, "")))
		}
		flush := rapid.SliceOfN(rapid.Bool(), len(batches), len(batches)).Draw(t, "flush")
		checkSplitter(t, batches, func(i int) bool { return flush[i] })
	})
}

func TestSplitterNeverCutsValidText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.StringN(1, 20, -1).Draw(t, "unit")
		text := strings.Repeat(unit, 1+rapid.IntRange(0, 20_000).Draw(t, "size")/len(unit))
		var s Splitter
		for len(text) > 0 {
			n := rapid.IntRange(1, len(text)).Draw(t, "batch")
			for _, delta := range deltasOf(&s, text[:n]) {
				if !utf8.ValidString(delta) {
					t.Fatalf("delta %q", delta)
				}
			}
			text = text[n:]
		}
		if s.Pending() != 0 {
			t.Fatalf("%d bytes pending at the end", s.Pending())
		}
	})
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("plain text"), uint16(3), true)
	f.Add([]byte("a😀é€\xff\xc3"), uint16(1), false)
	f.Add([]byte("\xe2\x82\xe2\x82\xac\xf0\x9f\x98"), uint16(2), true)
	f.Add(bytes.Repeat([]byte("é"), 5000), uint16(8191), false)
	f.Fuzz(func(t *testing.T, in []byte, size uint16, flush bool) {
		batches := slices.Collect(slices.Chunk(in, int(size)+1))
		checkSplitter(t, batches, func(i int) bool { return flush && i%3 == 0 })
	})
}

func benchmarkSplitter(b *testing.B, unit string) {
	batch := []byte(strings.Repeat(unit, MaxBatch/len(unit)))
	var s Splitter
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		s.Push(batch, func([]byte) {})
	}
}

func BenchmarkSplitterASCII64KiB(b *testing.B)   { benchmarkSplitter(b, "a") }
func BenchmarkSplitterUTF864KiB(b *testing.B)    { benchmarkSplitter(b, "€") }
func BenchmarkSplitterInvalid64KiB(b *testing.B) { benchmarkSplitter(b, "\xff") }
