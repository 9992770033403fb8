package spool

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// drawPattern draws an expression of all that there is in RE2's syntax, and of characters that have to do with each other.
func drawPattern(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{"a", "b", "k", "é", "ſ", "ab", "0", " ", ".", `\.`, "[ab]", "[^a]", `\d`, `\D`, `\w`, `\W`, `\s`, "[[:upper:]]", `\pL`, `\PL`,
			"[à-ü]", "[^é]", "^", "$", `\A`, `\z`, `\b`, `\B`, "(?i:k)", "(?i:S)", "(?m:^)", "(?m:$)", "(?s:.)", `\x{FFFD}`, `\r`, `\n`, "", `[^\x00-\x{10FFFF}]`}).Draw(t, "leaf")
	}
	one := drawPattern(t, depth-1)
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return one + drawPattern(t, depth-1)
	case 1:
		return "(?:" + one + "|" + drawPattern(t, depth-1) + ")"
	case 2:
		return "(?:" + one + ")" + rapid.SampledFrom([]string{"*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"}).Draw(t, "times")
	case 3:
		return "(" + one + ")"
	default:
		return one
	}
}

// No row that matches is passed over, whatever the pattern and the bytes are, and however many states there is room for; and a place that is
// found is in the first row that may match.
func TestNoRowThatMatchesIsPassedOver(t *testing.T) {
	stopped, rows := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pattern := drawPattern(t, rapid.IntRange(0, 4).Draw(t, "depth"))
		expression := regexp.MustCompile(pattern)
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		f := newFinder(parsed)
		if rapid.Bool().Draw(t, "little room") && f.automaton != nil {
			f.automaton.room = rapid.IntRange(0, 2000).Draw(t, "room")
			f.automaton.fed = 1 << 20 // so it does not give up
		}
		for range rapid.IntRange(1, 3).Draw(t, "texts") {
			text := []byte(strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "ab", "k", "K", "\u212a", "s", "ſ", "é", "Ü", "\xc3", "\xa9", "\xff", "\ufffd", "0",
				" ", ".", "\r", "\n", "\r\n", "\n"})).Draw(t, "text"), ""))
			f.begin(text)
			for pos := 0; pos < len(text); {
				hit := f.find(text, pos)
				line, next := lineAt(text, pos)
				switch matches := expression.Match(line); {
				case hit < pos:
					t.Fatalf("%q in %q: found %d from %d on", pattern, text, hit, pos)
				case matches && hit >= next:
					t.Fatalf("%q in %q: the row at %d matches, and was passed over", pattern, text, pos)
				case !matches && hit < next:
					stopped++
				}
				pos, rows = next, rows+1
			}
		}
	})
	t.Logf("of %d rows %d were looked at without a need", rows, stopped)
}

// Characters of several bytes, broken ones, and the letters of ASCII that others fold to.
func TestAnAutomatonKnowsCharacters(t *testing.T) {
	for _, c := range []struct{ pattern, row string }{
		{"^é$", "é"}, {"^.$", "é"}, {"^.{2}$", "€\U0001f600"}, {"^[^a]$", "\U0001f600"}, {"^[à-ü]x$", "éx"}, {"^.$", "\xff"}, {"^\ufffd$", "\xff"},
		{"(?i)^k$", "\u212a"}, {"(?i)^\u212a$", "k"}, {"(?i)^ſ$", "S"}, {"(?i)^É$", "é"}, {"^\\D$", "é"}, {"^\\pL$", "é"}, {"^é$", "é\r"}, {"^$", "\r"},
	} {
		parsed, err := syntax.Parse(c.pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		row, _ := lineAt([]byte(c.row), 0)
		if !regexp.MustCompile(c.pattern).Match(row) {
			t.Errorf("%s does not match %q", c.pattern, c.row)
		}
		text := "bbb\n" + c.row + "\n"
		if at, ok := newAutomaton(parsed).find([]byte(text)); at < 4 || at >= len(text) || !ok {
			t.Errorf("%s in %q: found at %d", c.pattern, c.row, at)
		}
	}
}

// An expression whose states are as many as the bytes does not make the search slow or large: the automaton gives up.
func TestAnAutomatonThatDoesNotPayGivesUp(t *testing.T) {
	parsed, err := syntax.Parse("[ab]*a[ab]{900}$", syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	f, random := newFinder(parsed), uint32(1)
	text := make([]byte, messages.MaxGrepLine)
	for i := range text {
		random = random*1664525 + 1013904223
		text[i] = "ab"[random>>31]
	}
	text[len(text)-1] = '\n'
	f.begin(text)
	if f.automaton == nil || f.find(text, 0) != 0 || f.automaton != nil {
		t.Error("it goes on")
	}
	if parsed, err = syntax.Parse(strings.Repeat("[ab]{1000}", 11), syntax.Perl); err != nil || newFinder(parsed).automaton != nil {
		t.Errorf("an expression of so many instructions has an automaton, or is none: %v", err)
	}
}

// A row that is so long that it is several is compared piece by piece, and each piece has a beginning and an end: also where the row has
// more bytes than a block, or begins in one.
func TestALongRowIsSeveralRows(t *testing.T) {
	const size = messages.MaxGrepLine
	for _, first := range []int64{0, 100_000} {
		text := bytes.Repeat([]byte("x"), int(first)+3*size-1000)
		if first > 0 {
			text[first-1] = '\n'
		}
		for i := range int64(3) {
			text[first+i*size] = 'A' + byte(i)
			text[min(first+(i+1)*size, int64(len(text)))-1] = 'a' + byte(i)
		}
		end := int64(len(text)) + 1
		text = append(text, "\nAxa\n"...)
		f := tiny(1024, 1<<30, nil).New()
		m := Memory{Extents: []Extent{{0, text}}, Total: int64(len(text)), Lines: 2, Ended: true}
		for pattern, want := range map[string][]int64{"^[A-C]": {first, first + size, first + 2*size, end}, "[ab]$": {first, first + size, end},
			"^B.*x": {first + size}, "^[BC]x": {first + size, first + 2*size}, "^Axa$": {end}, "Axa$": {end}, "xa$": {first, end}, "xxb$": {first + size}} {
			found, err := f.Read(t.Context(), messages.ReadOutput{Grep: &messages.Grep{Pattern: pattern}}, m)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, line := range found.Page.Lines {
				got = append(got, line.Offset)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, with a row from %d on, is found at %v, want %v", pattern, first, got, want)
			}
		}
	}
}

// What lies across the border of two blocks that are read is found, in capitals or not, with the lines around it, whatever byte of the line is
// the first of a block.
func TestALineAcrossBlocksIsFound(t *testing.T) {
	const row, end = "it FAILed here", "end"
	for cut := range len(row) + 1 {
		text := bytes.Repeat([]byte("0123456\n"), (blockSize-cut)/8)
		text = append(text, strings.Repeat("x", blockSize-cut-len(text))+"\n"+row+"\n"+end+"\n"...)
		first := int64(bytes.Index(text, []byte(row)))
		m := Memory{Extents: []Extent{{0, text}}, Total: int64(len(text)), Lines: newlines(text), Ended: true}
		f := tiny(1024, 1<<30, nil).New()
		for pattern, want := range map[string]int{"FAILed": 1, "(?i)failed": 1, "(?i:FAI)L(?i:ED)": 1, "failed": 0, "^it.FAIL": 1, "(?i)^IT.*HERE$": 1, "fail|FAIL": 1} {
			found, err := f.Read(t.Context(), messages.ReadOutput{Grep: &messages.Grep{Pattern: pattern, After: 1}}, m)
			if err != nil {
				t.Fatal(err)
			}
			lines := found.Page.Lines
			if len(lines) != 2*want || want > 0 && (string(lines[0].Bytes) != row || lines[0].Offset != first || lines[0].Number != m.Lines-1 || string(lines[1].Bytes) != end) {
				t.Errorf("%s, %d bytes before the border: %v", pattern, cut, lines)
			}
		}
	}
}
