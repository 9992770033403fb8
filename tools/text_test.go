package tools_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
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
			if got := tools.Text(&c.result); got != c.want {
				t.Errorf("Text:\n%s\nwant:\n%s", got, c.want)
			}
			if got := written(tools.OutcomeOf(&c.result)); got != c.want { // some clients show their model nothing else
				t.Errorf("the structured answer says:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

// written is a structured answer as a text.
func written(o tools.Outcome) string {
	var b strings.Builder
	if o.ChunkID != "" {
		fmt.Fprintf(&b, "Chunk ID: %s\n", o.ChunkID)
	}
	fmt.Fprintf(&b, "Wall time: %.4f seconds\nProcess %s\n", o.WallTimeSeconds, o.State)
	for _, note := range o.Notes {
		b.WriteString(note + "\n")
	}
	fmt.Fprintf(&b, "Original token count: %d\nOutput:\n%s", *o.OriginalTokenCount, o.Output)
	return b.String()
}

func TestTextCutsTheOutput(t *testing.T) {
	result := messages.Result{Output: []byte("token one token two token three token fo"), MaxOutputTokens: 4}
	want := "Original token count: 10\nOutput:\nWarning: truncated output (original token count: 10)\nTotal output lines: 1\n\n" +
		"token on…6 tokens truncated…token fo"
	if got := tools.Text(&result); !strings.HasSuffix(got, want) {
		t.Errorf("Text: %q, want its end to be %q", got, want)
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
		text := tools.Text(&result)
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

// statusLine are the lines with the state of a process.
var statusLine = regexp.MustCompile(`(?m)^Process .*$`)

func TestTextSaysHowAProcessEnded(t *testing.T) {
	for by, want := range map[messages.TerminatedBy]string{
		messages.TerminatedByUser:         "Process was terminated on request (signal 15)",
		messages.TerminatedByPrune:        "Process was terminated to make room for another command (signal 15)",
		messages.TerminatedBySessionClose: "Process was terminated because its session was closed (signal 15)",
		messages.TerminatedByShutdown:     "Process was terminated because the host was shutting down (signal 15)",
		messages.TerminatedByTimeout:      "Process was terminated because its time was over (signal 15)",
		messages.TerminatedByLimit:        "Process was terminated because it went beyond a limit (signal 15)",
	} {
		result := messages.Result{Status: messages.StatusSignaled(15), Cause: messages.CauseTerminated, By: by}
		if got := statusLine.FindAllString(tools.Text(&result), -1); len(got) != 1 || got[0] != want {
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
		if got := statusLine.FindAllString(tools.Text(&result), -1); len(got) != 1 || got[0] != want {
			t.Errorf("%+v: %q, want %q", result, got, want)
		}
	}
}
