//go:build linux

package tools_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
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

func TestListProcessesSaysWhatEachWaitsFor(t *testing.T) {
	set, _ := open(t)
	for _, c := range []struct{ script, kind, says string }{
		{"read -s x", "secret", "running; waits for input: a secret: echo is off: "},
		{"exec cat", "line", "running; waits for input: a line: "},
		{"exec sleep 600", "", "running: exec sleep 600 "},
	} {
		id := start(t, set, c.script, `"shell":"bash"`, `"tty":true`)
		for _, arguments := range []string{`{}`, `{"include_ended":true}`} {
			var answer tools.Answer
			expect.Eventually(t, c.script+": the list says what it waits for", func() bool { // its input may not be open yet
				answer = call(t, set, "list_processes", arguments)
				for _, p := range structured[tools.Listing](t, answer).Processes {
					if p.SessionID == id {
						return p.WaitingFor == c.kind && !p.Guess && p.Unknown == "" && p.Listening == nil
					}
				}
				return false
			})
			expect.Contains(t, answer.Text, fmt.Sprintf("%d %s", id, c.says))
		}
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("skipped: ", err)
	}
	id := start(t, set, `exec python3 -c "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); time.sleep(1000)"`)
	expect.Eventually(t, "the list says where it listens", func() bool {
		for _, p := range structured[tools.Listing](t, call(t, set, "list_processes", `{}`)).Processes {
			if p.SessionID == id {
				return len(p.Listening) == 1 && strings.HasPrefix(p.Listening[0], "127.0.0.1:")
			}
		}
		return false
	})
}
