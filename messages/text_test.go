package messages_test

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

func TestTextTellsEverythingInOrder(t *testing.T) {
	everything := messages.Result{
		Process: 1234, Running: true, Status: messages.StatusExited(3), ChunkID: "abc123", WallTime: 1250 * time.Millisecond,
		Background: &messages.Background{Count: 2, Kept: true}, Output: []byte("hello\n"), MaxOutputTokens: 100,
		InputErr: &messages.Error{Code: messages.ErrInputNotTaken, Detail: "7 bytes were discarded"},
	}
	for _, c := range []struct {
		name   string
		result messages.Result
		want   string
	}{
		{"everything", everything, "Chunk ID: abc123\nWall time: 1.2500 seconds\nProcess running with session ID 1234\n" +
			"Command: exited with code 3\nBackground processes: 2 kept running\nInput: 7 bytes were discarded\n" +
			"Original token count: 2\nOutput:\nhello\n"},
		{"an ended process", messages.Result{Process: 1234, Status: messages.StatusExited(0), ChunkID: "00ff00",
			WallTime: 123456 * time.Microsecond, Output: []byte("0123456789012345678901234567890123456789"), MaxOutputTokens: 10},
			"Chunk ID: 00ff00\nWall time: 0.1235 seconds\nProcess exited with code 0\nOriginal token count: 10\nOutput:\n" +
				"0123456789012345678901234567890123456789"},
		{"a signal", messages.Result{Status: messages.StatusSignaled(9), Background: &messages.Background{Count: 1}},
			"Wall time: 0.0000 seconds\nProcess exited with code 137\nBackground processes: 1 being ended\n" +
				"Original token count: 0\nOutput:\n"},
		{"an end without the kernel's word", messages.Result{Status: messages.StatusNone(), Lost: "the warden process died"},
			"Wall time: 0.0000 seconds\nProcess ended, its exit code is not known: the warden process died\n" +
				"Original token count: 0\nOutput:\n"},
		{"a running process without output", messages.Result{Process: 99999, Running: true, Status: messages.StatusNone(), ChunkID: "a"},
			"Chunk ID: a\nWall time: 0.0000 seconds\nProcess running with session ID 99999\nOriginal token count: 0\nOutput:\n"},
		{"what waits", messages.Result{Process: 1000, Running: true, Status: messages.StatusNone(), Waiting: "for the slot of another"},
			"Wall time: 0.0000 seconds\nProcess running with session ID 1000\nNot started yet, waiting for the slot of another\n" +
				"Original token count: 0\nOutput:\n"},
		{"input that is not taken yet", messages.Result{Process: 1000, Running: true, Status: messages.StatusNone(), Taken: 3, Pending: 7,
			EarlierInput: []messages.InputOutcome{{Bytes: 5, Taken: 5}, {Bytes: 9, Taken: 1,
				Err: &messages.Error{Code: messages.ErrInputNotTaken, Op: "write", Detail: "the rest was discarded"}}}},
			"Wall time: 0.0000 seconds\nProcess running with session ID 1000\nEarlier input: 5 of 5 bytes were taken\n" +
				"Earlier input: 1 of 9 bytes were taken: write: the rest was discarded\n" +
				"Input: 3 of 10 bytes were taken, the rest is still offered\nOriginal token count: 0\nOutput:\n"},
		{"a denial", messages.Result{Status: messages.StatusExited(1), Denial: &messages.Denial{Operation: "write", Path: "/etc/x"}},
			"Wall time: 0.0000 seconds\nProcess exited with code 1\nNote: the sandbox denied write /etc/x\n" +
				"Original token count: 0\nOutput:\n"},
		{"background that outlived a lost leader", messages.Result{Process: 1000, Running: true, Lost: "the warden process died",
			Background: &messages.Background{Count: 1, Kept: true}}, "Wall time: 0.0000 seconds\nProcess running with session ID 1000\n" +
			"Command: ended, its exit code is not known: the warden process died\nBackground processes: 1 kept running\n" +
			"Original token count: 0\nOutput:\n"},
		{"nothing", messages.Result{}, "Wall time: 0.0000 seconds\nProcess ended, its exit code is not known\nOriginal token count: 0\nOutput:\n"},
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
			"Warning: truncated output (original token count: 270)\n... 1000 bytes omitted ...\n\nhhhhhhhhhhhh…21 tokens truncated…tttttttttttt"},
		// Of the 24 bytes on the left 16 are head and 8 the marker's.
		{"cut through", dropped(strings.Repeat("h", 16), strings.Repeat("t", 80), 7, 12),
			"Warning: truncated output (original token count: 26)\n... 7 bytes omitted ...\n\nhhhhhhhhhhhhhhhh\n... 7 b…19 tokens truncated…" +
				strings.Repeat("t", 24)},
		{"truncated beside it", dropped("h", strings.Repeat("t", 200), 9, 20),
			"Warning: truncated output (original token count: 53)\nh\n... 9 bytes omitted ...\ntttttttttttttt…37 tokens truncated…" +
				strings.Repeat("t", 40)},
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

// The estimate is taken over the bytes of the process, not over their replacements, which are longer, and is the same on
// both lines.
func TestOriginalTokensCountBytes(t *testing.T) {
	broken := bytes.Repeat([]byte{0xff}, 100)
	for _, result := range []messages.Result{
		{Output: broken, MaxOutputTokens: 30},
		{Output: broken, MaxOutputTokens: 1000, MaxOutputBytes: new(120)},
		{Output: broken[:50], Head: 20, Omitted: 50, MaxOutputTokens: 30},
	} {
		text := result.Text()
		before, output, _ := strings.Cut(text, "Output:\n")
		if !strings.HasSuffix(before, "\nOriginal token count: 25\n") ||
			!strings.HasPrefix(output, "Warning: truncated output (original token count: 25)\n") {
			t.Errorf("the text is %q", text)
		}
		if !utf8.ValidString(text) {
			t.Error("it is not UTF-8")
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

// statusLine are the lines that say how a process stands.
var statusLine = regexp.MustCompile(`(?m)^Process .*$`)

func TestTextSaysWhyAProcessIsGone(t *testing.T) {
	for by, want := range map[messages.TerminatedBy]string{
		messages.TerminatedByUser:         "Process was terminated on request (signal 15)",
		messages.TerminatedByPrune:        "Process was terminated to make room for another command (signal 15)",
		messages.TerminatedBySessionClose: "Process was terminated because its session was closed (signal 15)",
		messages.TerminatedByShutdown:     "Process was terminated because the host was shutting down (signal 15)",
		messages.TerminatedByTimeout:      "Process was terminated because its time was over (signal 15)",
		messages.TerminatedByLimit:        "Process was terminated because it went beyond a limit (signal 15)",
	} {
		result := messages.Result{Status: messages.StatusSignaled(15), Cause: messages.CauseTerminated, By: by}
		if got := statusLine.FindAllString(result.Text(), -1); len(got) != 1 || got[0] != want {
			t.Errorf("by %s: %q, want %q", by, got, want)
		}
	}
	for want, result := range map[string]messages.Result{
		"Process was terminated on request (exit code 3)":                                     {Status: messages.StatusExited(3), Cause: messages.CauseTerminated, By: messages.TerminatedByUser},
		"Process was terminated because its time was over: its status was lost":               {Status: messages.StatusNone(), Lost: "its status was lost", Cause: messages.CauseTerminated, By: messages.TerminatedByTimeout},
		"Process was stopped by its sandbox (exit code 1)":                                    {Status: messages.StatusExited(1), Cause: messages.CauseSandboxDenied},
		"Process ended, its exit code is not known: the warden process died":                  {Status: messages.StatusNone(), Lost: "the warden process died", Cause: messages.CauseRuntimeFailure},
		"Process exited with code 143":                                                        {Status: messages.StatusSignaled(15), Cause: messages.CauseExited},
		"Process running with session ID 1000":                                                {Process: 1000, Running: true, Status: messages.StatusExited(0), Background: &messages.Background{Count: 1, Kept: true}},
		"Process was not allowed to run: rejected by user":                                    {Status: messages.StatusNone(), Cause: messages.CauseRejected, Lost: "rejected by user"},
		"Process could not be started: the file system of the program does not answer (slow)": {Status: messages.StatusNone(), Cause: messages.CauseSpawnFailed, Lost: "the file system of the program does not answer (slow)"},
	} {
		if got := statusLine.FindAllString(result.Text(), -1); len(got) != 1 || got[0] != want {
			t.Errorf("%+v: %q, want %q", result, got, want)
		}
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
