package messages_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

func TestTextTellsEverythingInOrder(t *testing.T) {
	everything := messages.Result{
		Process: 1234, Running: true, Status: messages.Exited(3), ChunkID: "abc123", WallTime: 1250 * time.Millisecond,
		Background: &messages.Background{Count: 2, Kept: true}, Output: []byte("hello\n"), MaxOutputTokens: 100,
		InputErr: &messages.Error{Code: messages.CodeInputNotTaken, Detail: "7 bytes were discarded"},
	}
	for _, c := range []struct {
		name   string
		result messages.Result
		want   string
	}{
		{"everything", everything, "Chunk ID: abc123\nWall time: 1.2500 seconds\nProcess exited with code 3\n" +
			"Process running with session ID 1234\nBackground processes: 2 kept running\nInput: 7 bytes were discarded\n" +
			"Original token count: 2\nOutput:\nhello\n"},
		{"an ended process", messages.Result{Process: 1234, Status: messages.Exited(0), ChunkID: "00ff00",
			WallTime: 123456 * time.Microsecond, Output: []byte("0123456789012345678901234567890123456789"), MaxOutputTokens: 10},
			"Chunk ID: 00ff00\nWall time: 0.1235 seconds\nProcess exited with code 0\nOriginal token count: 10\nOutput:\n" +
				"0123456789012345678901234567890123456789"},
		{"a signal", messages.Result{Status: messages.Signaled(9), Background: &messages.Background{Count: 1}},
			"Wall time: 0.0000 seconds\nProcess exited with code 137\nBackground processes: 1 being ended\n" +
				"Original token count: 0\nOutput:\n"},
		{"an end without the kernel's word", messages.Result{Status: messages.NoStatus, Lost: "the warden process died"},
			"Wall time: 0.0000 seconds\nProcess ended, its exit code is not known: the warden process died\n" +
				"Original token count: 0\nOutput:\n"},
		{"a running process without output", messages.Result{Process: 99999, Running: true, Status: messages.NoStatus, ChunkID: "a"},
			"Chunk ID: a\nWall time: 0.0000 seconds\nProcess running with session ID 99999\nOriginal token count: 0\nOutput:\n"},
		{"nothing", messages.Result{}, "Wall time: 0.0000 seconds\nOriginal token count: 0\nOutput:\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.result.Text(); got != c.want {
				t.Errorf("Text:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

func TestTextCutsTheOutput(t *testing.T) {
	result := messages.Result{Output: []byte("token one token two token three token fo"), MaxOutputTokens: 4}
	want := "Original token count: 10\nOutput:\nWarning: truncated output (original token count: 10)\nTotal output lines: 1\n\n" +
		"token on…6 tokens truncated…token fo"
	if got := result.Text(); !strings.HasSuffix(got, want) {
		t.Errorf("Text: %q, want its end to be %q", got, want)
	}
}

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
			"Warning: truncated output (original token count: 270)\n... 1000 bytes omitted ...\nhhhhhhhhhhhh…21 tokens truncated…tttttttttttt"},
		// Of the 24 bytes on the left 16 are head and 8 the marker's.
		{"cut through", dropped(strings.Repeat("h", 16), strings.Repeat("t", 80), 7, 12),
			"Warning: truncated output (original token count: 26)\n... 7 bytes omitted ...\nhhhhhhhhhhhhhhhh\n... 7 b…19 tokens truncated…" +
				strings.Repeat("t", 24)},
		{"truncated beside it", dropped("h", strings.Repeat("t", 200), 9, 20),
			"Warning: truncated output (original token count: 53)\nh\n... 9 bytes omitted ...\ntttttttttttttt…37 tokens truncated…" +
				strings.Repeat("t", 40)},
		{"no budget", dropped("head", "tail", 1000, 0),
			"Warning: truncated output (original token count: 252)\n... 1000 bytes omitted ...\n…9 tokens truncated…"},
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
	if want := "... 151424 bytes omitted ..."; lines[1] != want {
		t.Errorf("the second line is %q, want %q", lines[1], want)
	}
}

func TestWhatIsNotUTF8IsReplacedByteForByte(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain", "plain"},
		{"", ""},
		{"a\xffb", "a\uFFFDb"},
		{"\xff\xfe\xfd", "\uFFFD\uFFFD\uFFFD"},
		{"cut \xe2\x82", "cut \uFFFD\uFFFD"},
		{"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"}, // half of a surrogate pair
		{"kept \uFFFD too", "kept \uFFFD too"},
		{"\r\n\x1b[1m\x00", "\r\n\x1b[1m\x00"},
	} {
		result := messages.Result{Output: []byte(c.in), MaxOutputTokens: 100}
		if got := result.OutputText(); got != c.want {
			t.Errorf("%q became %q, want %q", c.in, got, c.want)
		}
	}
}

// The estimate is taken over the bytes of the process, not over their replacements, which are longer.
func TestOriginalTokensCountBytes(t *testing.T) {
	result := messages.Result{Output: bytes.Repeat([]byte{0xff}, 100), MaxOutputTokens: 30}
	text := result.OutputText()
	if want := "Warning: truncated output (original token count: 25)\nTotal output lines: 1\n\n"; !strings.HasPrefix(text, want) {
		t.Errorf("%q does not begin with %q", text, want)
	}
	if !utf8.ValidString(text) {
		t.Error("it is not UTF-8")
	}
}
