//go:build linux

package tools_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

func TestACallEndsForWhatTheModelWaitsFor(t *testing.T) {
	set, _ := open(t)
	answer := call(t, set, "exec_command", `{"cmd":"read -p 'name? ' x; stty -echo; read y; sleep 0.1; echo two; cat","shell":"bash","tty":true,"yield_time_ms":30000}`)
	o := structured[tools.Outcome](t, answer)
	if !strings.Contains(answer.Text, "\nWaiting for input: a line\n") || o.Output != "name? " || o.SessionID == nil {
		t.Fatalf("%q", answer.Text)
	}
	for _, c := range []struct{ chars, until, says string }{
		{`one\n`, `"awaiting_input"`, "Waiting for input: a secret: echo is off"},
		{`secret\n`, `{"pattern":"(?m)^two\\n"}`, "Until: the pattern was found"},
		{``, `{"quiet_ms":1,"awaiting_input":false}`, "Until: no more output came"},
		{``, `{"quiet_after_output_ms":1}`, "Until: not met"},
	} {
		yield := 240_000
		if strings.Contains(c.says, "not met") {
			yield = 1
		}
		arguments := fmt.Sprintf(`{"session_id":%d,"chars":"%s","yield_time_ms":%d,"until":%s}`, *o.SessionID, c.chars, yield, c.until)
		if answer := call(t, set, "write_stdin", arguments); !strings.Contains(answer.Text, "\n"+c.says+"\n") {
			t.Errorf("%s: %q", arguments, answer.Text)
		}
	}
	answer = call(t, set, "exec_command", `{"cmd":"echo ended","yield_time_ms":240000,"until":"exit"}`)
	if strings.Contains(answer.Text, "Until") || !strings.Contains(answer.Text, "exited with code 0") {
		t.Errorf("%q", answer.Text)
	}
}

func TestAnUntilThatIsNoneIsRefusedByName(t *testing.T) {
	set, _ := open(t)
	for until, says := range map[string]string{
		`"prompt"`: "awaiting_input", `5`: "cannot unmarshal", `{"patern":"x"}`: "patern", `{"quiet_ms":-1}`: "negative", `{"pattern":"("}`: "missing closing",
	} {
		answer := call(t, set, "exec_command", `{"cmd":"true","until":`+until+`}`)
		if !errors.Is(answer.Err, messages.ErrInvalidRequest) || !strings.Contains(answer.Text, says) {
			t.Errorf("%s: %q, %v", until, answer.Text, answer.Err)
		}
	}
}
