package tools_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
	"github.com/execbus/execbus/tools"
)

const bar = `{"cmd": "printf '\\r\\033[32m10%%\\033[0m\\r100%%\\033[K\\ndone\\n'; printf '%s\\n' end"%s}`

// The session says how output is shown, and a call says otherwise.
func TestOutputInViews(t *testing.T) {
	const raw, text = "\r\x1b[32m10%\x1b[0m\r100%\x1b[K\ndone\nend\n", "100%\ndone\nend\n"
	for _, c := range []struct {
		session    messages.View
		call, want string
	}{
		{"", ``, raw},
		{"", `, "view": "text"`, text},
		{messages.ViewText, ``, text},
		{messages.ViewText, `, "view": "raw"`, raw},
		{messages.ViewText, `, "view": null`, text},
	} {
		set, _ := open(t, tools.Options{Session: execbus.SessionOptions{NoLoginShell: true, View: c.session}})
		answer := call(t, set, "exec_command", strings.Replace(bar, "%s}", c.call+"}", 1))
		if o := structured[tools.Outcome](t, answer); o.Output != c.want || *o.OriginalTokenCount != int64(messages.Tokens(len(raw))) {
			t.Errorf("session %q, call %q: %q of %d tokens", c.session, c.call, o.Output, *o.OriginalTokenCount)
		}
		if !strings.HasSuffix(answer.Text, fmt.Sprintf("\nOriginal token count: %d\nOutput:\n%s", messages.Tokens(len(raw)), c.want)) {
			t.Errorf("session %q, call %q: %q", c.session, c.call, answer.Text)
		}
	}
}

func TestAViewThatThereIsNot(t *testing.T) {
	set, _ := open(t)
	for _, request := range []struct{ tool, arguments, says string }{
		{"exec_command", `{"cmd": "true", "view": "html"}`, "raw, text, screen"},
		{"read_output", `{"session_id": 1000, "view": "screen", "pattern": "x"}`, "a search has no screen"},
	} {
		if answer := call(t, set, request.tool, request.arguments); answer.Err == nil || !strings.Contains(answer.Text, request.says) {
			t.Errorf("%s answers %q", request.tool, answer.Text)
		}
	}
}

// A full-screen program answers with its screen, and its output can be read in every form, by the offsets of its bytes.
func TestFullScreenProgramsInViews(t *testing.T) {
	set, _ := open(t, tools.Options{Session: execbus.SessionOptions{NoLoginShell: true, View: messages.ViewText}})
	// A kernel that makes CR LF of a line's end may write that by itself.
	script := `stty -echo -opost; printf '\\033[?1049h\\033[2J\\033[2;3H\\033[7mtwo\\033[m'; read a; printf '\\033[1;1Hone'; read b; printf '\\033[?1049l'; echo left`
	answer := call(t, set, "exec_command", `{"cmd": "`+script+`", "tty": true, "until": {"pattern": "two"}}`)
	o := structured[tools.Outcome](t, answer)
	if o.SessionID == nil || o.Output != "\n  two\n" {
		t.Fatalf("%q", answer.Text)
	}
	expect.Contains(t, answer.Text, "\nThe output is the screen of the terminal\n", "Output:\n\n  two\n")
	answer = call(t, set, "write_stdin", fmt.Sprintf(`{"session_id": %d, "chars": "\n", "until": {"pattern": "one"}}`, *o.SessionID))
	if got := structured[tools.Outcome](t, answer); got.Output != "one\n  two\n" {
		t.Errorf("%q", answer.Text)
	}
	answer = call(t, set, "read_output", fmt.Sprintf(`{"session_id": %d}`, *o.SessionID))
	r := structured[tools.Reading](t, answer)
	if r.Output != "one\n  two\n" || r.NextOffset != r.TotalBytes || r.Offset != 0 {
		t.Errorf("%+v", r)
	}
	expect.Contains(t, answer.Text, "\nThe screen behind them:\nOutput:\none\n")
	answer = call(t, set, "read_output", fmt.Sprintf(`{"session_id": %d, "view": "raw"}`, *o.SessionID))
	if raw := structured[tools.Reading](t, answer); raw.NextOffset != r.NextOffset || !strings.Contains(raw.Output, "\x1b[7mtwo") {
		t.Errorf("%+v", raw)
	}
	answer = call(t, set, "write_stdin", fmt.Sprintf(`{"session_id": %d, "chars": "\n", "until": {"pattern": "left"}}`, *o.SessionID))
	if got := structured[tools.Outcome](t, answer); got.Output != "left\n" {
		t.Errorf("%q", answer.Text)
	}
	answer = call(t, set, "read_output", fmt.Sprintf(`{"session_id": %d, "pattern": "two"}`, *o.SessionID))
	if found := structured[tools.Reading](t, answer); len(found.Matches) != 1 || strings.Contains(found.Matches[0].Line, "\x1b") {
		t.Errorf("%+v", found)
	}
}
