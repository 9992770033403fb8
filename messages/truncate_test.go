package messages_test

import (
	"math"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

func truncated(original, lines, body string) string {
	return "Warning: truncated output (original token count: " + original + ")\nTotal output lines: " + lines + "\n\n" + body
}

func TestTruncate(t *testing.T) {
	const long = "this is an example of a long output that should be truncated"
	for _, c := range []struct {
		name   string
		text   string
		tokens int
		want   string
	}{
		{"one token", "example output", 1, truncated("4", "1", "ex…3 tokens truncated…ut")},
		{"five tokens", long, 5, truncated("15", "1", "this is an…10 tokens truncated… truncated")},
		{"no budget", long, 0, truncated("15", "1", "…15 tokens truncated…")},
		{"a negative budget is none", long, -3, truncated("15", "1", "…15 tokens truncated…")},
		{"exactly the budget", long, 15, long},
		{"below the budget", "short output", 100, "short output"},
		{"nothing", "", 0, ""},
		{"more tokens than can be counted in bytes", long, int(^uint(0) >> 1), long},
		{"lines are the original's", "alpha\nbeta\ngamma\ndelta\nepsilon\n", 2, truncated("8", "5", "alph…6 tokens truncated…lon\n")},
		{"the last line needs no newline", "\n\nabcdefghij", 1, truncated("3", "3", "\n\n…2 tokens truncated…ij")},
		// Each of the characters has four bytes, so a half of two bytes has no room for one.
		{"no half fits", "😀😀😀", 1, truncated("3", "1", "…2 tokens truncated…")},
		{"cut back to characters", "😀😀😀😀😀\nsecond line with text\n", 5, truncated("11", "2", "😀😀…6 tokens truncated…with text\n")},
		{"only a beginning", "aaaa€€€€", 2, truncated("4", "1", "aaaa…2 tokens truncated…€")},
		{"only an end", "€aaaaaaaaaaa", 1, truncated("4", "1", "…3 tokens truncated…aa")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := messages.Truncate(c.text, c.tokens); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestTruncateBytes(t *testing.T) {
	const long = "this is an example of a long output that should be truncated"
	for _, c := range []struct {
		name, text string
		bytes      int
		want       string
	}{
		{"thirty bytes", long, 30, truncated("15", "1", "this is an exam…30 chars truncated…ld be truncated")},
		{"no budget", long, 0, truncated("15", "1", "…60 chars truncated…")},
		{"a negative budget is none", long, -1, truncated("15", "1", "…60 chars truncated…")},
		{"exactly the budget", long, 60, long},
		{"one byte less", long, 59, truncated("15", "1", long[:29]+"…1 chars truncated…"+long[30:])},
		{"characters, not bytes, are counted", "😀😀😀😀😀", 10, truncated("5", "1", "😀…3 chars truncated…😀")},
		{"lines are the original's", "a\nb\nc\nd\n", 4, truncated("2", "4", "a\n…4 chars truncated…d\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := messages.TruncateBytes(c.text, c.bytes); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// dropped is a result whose middle was dropped.
func dropped(head, tail string, omitted int64, tokens int) messages.Result {
	return messages.Result{Output: []byte(head + tail), Head: len(head), Omitted: omitted, MaxOutputTokens: tokens}
}

func TestOmissionMarker(t *testing.T) {
	for _, c := range []struct {
		name   string
		result messages.Result
		want   string
	}{
		{"not truncated", dropped("head", "tail", 1000, 100), "head\n... 1000 bytes omitted ...\ntail"},
		{"nothing before", dropped("", "tail", 5, 100), "\n... 5 bytes omitted ...\ntail"},
		{"nothing behind", dropped("head", "", 5, 100), "head\n... 5 bytes omitted ...\n"},
		// 40 + 28 + 40 bytes, of which 24 are left. (40+1000+40)/4 tokens came.
		{"truncated away", dropped(strings.Repeat("h", 40), strings.Repeat("t", 40), 1000, 6),
			"Warning: truncated output (original token count: 270)\n... 1000 bytes omitted ...\n\nhhhhhhhhhhhh…21 tokens truncated…tttttttttttt"},
		// Of the 24 bytes on the left 16 are head and 8 the marker's.
		{"cut through", dropped(strings.Repeat("h", 16), strings.Repeat("t", 80), 7, 12),
			"Warning: truncated output (original token count: 26)\n... 7 bytes omitted ...\n\nhhhhhhhhhhhhhhhh\n... 7 b…19 tokens truncated…" +
				strings.Repeat("t", 24)},
		{"truncated beside it", dropped("h", strings.Repeat("t", 200), 9, 20),
			"Warning: truncated output (original token count: 53)\nh\n... 9 bytes omitted ...\ntttttttttttttt…37 tokens truncated…" +
				strings.Repeat("t", 40)},
		// Of the 24 bytes on the right the marker has all but its first newline.
		{"the newline in front of it cut", dropped(strings.Repeat("h", 24), "", 1, 12),
			"Warning: truncated output (original token count: 7)\n" + strings.Repeat("h", 24) + "…1 tokens truncated…... 1 bytes omitted ...\n"},
		{"no budget", dropped("head", "tail", 1000, 0),
			"Warning: truncated output (original token count: 252)\n... 1000 bytes omitted ...\n\n…9 tokens truncated…"},
		{"a head longer than the output", messages.Result{Output: []byte("all"), Head: 9, Omitted: 1, MaxOutputTokens: 100},
			"all\n... 1 bytes omitted ...\n"},
		{"a negative head", messages.Result{Output: []byte("all"), Head: -1, Omitted: 1, MaxOutputTokens: 100},
			"\n... 1 bytes omitted ...\nall"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.result.OutputText()
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if marker := strings.TrimSpace(messages.OmissionMarker(c.result.Omitted)); strings.Count(got, marker) != 1 {
				t.Errorf("the marker is there %d times: %q", strings.Count(got, marker), got)
			}
		})
	}
}

func TestSecondLineOfMoreThanAMegabyteIsTheMarker(t *testing.T) {
	half := strings.Repeat("x", 512<<10-1) + "\n"
	result := dropped(half, half, 1_200_000-1<<20, messages.DefaultOutputTokens)
	lines := strings.Split(result.OutputText(), "\n")
	if want := "Warning: truncated output (original token count: 300000)"; lines[0] != want {
		t.Errorf("the first line is %q, want %q", lines[0], want)
	}
	if want := "... 151424 bytes omitted ..."; lines[1] != want || lines[2] != "" {
		t.Errorf("the second line is %q, want %q, and then %q, want an empty one", lines[1], want, lines[2])
	}
}

func TestABrokenCharacterIsReplacedAsOne(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain", "plain"},
		{"", ""},
		{"a\xffb", "a\uFFFDb"},
		{"\xff\xfe\xfd", "\uFFFD\uFFFD\uFFFD"},
		{"cut \xe2\x82", "cut \uFFFD"},
		{"cut \xf0\x9f\x98", "cut \uFFFD"},
		{"\xe2\x82\xac\xe2\x82a", "€\uFFFDa"},
		// The tables of the Unicode standard, chapter 3: what is too long, what are surrogates, what lies beyond, and the rest.
		{"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", strings.Repeat("\uFFFD", 8) + "A"},
		{"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", strings.Repeat("\uFFFD", 8) + "A"},
		{"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", strings.Repeat("\uFFFD", 5) + "A\uFFFD\uFFFDB"},
		{"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", strings.Repeat("\uFFFD", 4) + "A"},
		{"\xF0\x90\x80a\xF4\x8F\xBFb", "\uFFFDa\uFFFDb"}, // only the second byte has a narrower range
		{"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},           // half of a surrogate pair
		{"kept \uFFFD too", "kept \uFFFD too"},
		{"\r\n\x1b[1m\x00", "\r\n\x1b[1m\x00"},
	} {
		result := messages.Result{Output: []byte(c.in), MaxOutputTokens: 100}
		if got := result.OutputText(); got != c.want {
			t.Errorf("%q became %q, want %q", c.in, got, c.want)
		}
	}
}

func TestTheTighterBudgetHolds(t *testing.T) {
	const text = "this is an example of a long output that should be truncated"
	for _, c := range []struct {
		tokens int
		bytes  *int
		want   string
	}{
		{1000, new(30), truncated("15", "1", "this is an exam…30 chars truncated…ld be truncated")},
		{5, new(1000), truncated("15", "1", "this is an…10 tokens truncated… truncated")},
		{5, new(20), truncated("15", "1", "this is an…10 tokens truncated… truncated")},
		{1000, new(0), truncated("15", "1", "…60 chars truncated…")},
		{1000, new(60), text},
		{math.MaxInt, new(math.MaxInt), text},
	} {
		result := messages.Result{Output: []byte(text), MaxOutputTokens: c.tokens, MaxOutputBytes: c.bytes}
		if got := result.OutputText(); got != c.want {
			t.Errorf("in %d tokens and %d bytes it is\n%q, want\n%q", c.tokens, c.bytes, got, c.want)
		}
	}
	omitted := dropped(strings.Repeat("h", 40), strings.Repeat("t", 40), 1000, 1000)
	omitted.MaxOutputBytes = new(24)
	want := "Warning: truncated output (original token count: 270)\n... 1000 bytes omitted ...\n\nhhhhhhhhhhhh…84 chars truncated…tttttttttttt"
	if got := omitted.OutputText(); got != want {
		t.Errorf("with a hole it is\n%q, want\n%q", got, want)
	}
}

func TestAnEndRecordInWords(t *testing.T) {
	for want, record := range map[string]messages.EndRecord{
		"exited with code 0":        {Cause: messages.CauseExited, Status: messages.StatusExited(0)},
		"was terminated on request": {Cause: messages.CauseTerminated, By: messages.TerminatedByUser, Status: messages.StatusNone()},
		"was terminated because its session was closed (signal 9): before it began": {Cause: messages.CauseTerminated, By: messages.TerminatedBySessionClose, Status: messages.StatusSignaled(9), Detail: "before it began"},
		"ended, its exit code is not known: the warden process died":                {Cause: messages.CauseRuntimeFailure, Status: messages.StatusNone(), Detail: "the warden process died"},
	} {
		if got := record.Words(); got != want {
			t.Errorf("%s: %q, want %q", record.String(), got, want)
		}
	}
}
