package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
	"github.com/execbus/execbus/tools"
)

func TestWrongArgumentsAreNamed(t *testing.T) {
	set, _ := open(t)
	for _, test := range []struct{ tool, arguments, subject, says string }{
		{"exec_command", `{}`, "cmd", "missing"},
		{"exec_command", ``, "cmd", "missing"},
		{"exec_command", `{"cmd":null}`, "cmd", "missing"},
		{"exec_command", `{"comand":"x","CMD":1}`, "cmd", `missing; provide it. And there is no argument "comand", "CMD"; there are cmd, workdir`},
		{"exec_command", `{"cmd":"true","comand":"x","cmd":"x"}`, "cmd", "twice"},
		{"exec_command", `{"cmd":""}`, "cmd", "empty"},
		{"exec_command", `{"cmd":5}`, "cmd", "must be a string, and is a number"},
		{"exec_command", `{"cmd":["ls"]}`, "cmd", "must be a string, and is a list"},
		{"exec_command", `{"cmd":{}}`, "cmd", "must be a string, and is an object"},
		{"exec_command", `{"cmd":"true","cmd":"false"}`, "cmd", "twice"},
		{"exec_command", `{"cmd":"true","tty":"yes"}`, "tty", "must be true or false, and is a string"},
		{"exec_command", `{"cmd":"true","tty":1}`, "tty", "must be true or false, and is a number"},
		{"exec_command", `{"cmd":"true","login":"no"}`, "login", "true or false"},
		{"exec_command", `{"cmd":"true","yield_time_ms":"10"}`, "yield_time_ms", "must be a number, and is a string"},
		{"exec_command", `{"cmd":"true","yield_time_ms":-1}`, "yield_time_ms", "negative"},
		{"exec_command", `{"cmd":"true","yield_time_ms":1e999}`, "yield_time_ms", "number that is too large"},
		{"exec_command", `{"cmd":"true","max_output_tokens":true}`, "max_output_tokens", "must be a number, and is true or false"},
		{"exec_command", `{"cmd":"true","max_output_tokens":1.5}`, "max_output_tokens", "not a whole number"},
		{"exec_command", `{"cmd":"true","prefix_rule":"git"}`, "prefix_rule", "must be a list of strings, and is a string"},
		{"exec_command", `{"cmd":"true","prefix_rule":[1]}`, "prefix_rule", "list of something else"},
		{"exec_command", `{"cmd":"true","sandbox_permissions":"root"}`, "sandbox_permissions", "none of its values"},
		{"exec_command", `{"cmd":"true","additional_permissions":{"disk":1}}`, "additional_permissions", `unknown field "disk"`},
		{"exec_command", `{"cmd":"true","additional_permissions":[]}`, "additional_permissions", "cannot unmarshal"},
		{"exec_command", `[]`, "arguments", "not an object"},
		{"exec_command", `"cmd"`, "arguments", "not an object"},
		{"exec_command", `null`, "cmd", "missing"},
		{"exec_command", `{"cmd":`, "cmd", "not JSON"},
		{"exec_command", `{"cmd" "x"}`, "cmd", "not JSON"},
		{"exec_command", `{`, "arguments", "not JSON"},
		{"exec_command", `{"cmd":"true"}}`, "arguments", "something follows"},
		{"exec_command", "\xff", "arguments", "not JSON"},
		{"write_stdin", `{"chars":"x"}`, "session_id", "missing"},
		{"write_stdin", `{"session_id":"1000"}`, "session_id", "must be a number, and is a string"},
		{"write_stdin", `{"session_id":1000.5}`, "session_id", "not a whole number"},
		{"write_stdin", `{"session_id":-4}`, "session_id", "negative"},
		{"write_stdin", `{"session_id":1000,"chars":7}`, "chars", "must be a string"},
		{"write_stdin", `{"session_id":1000,"chars":"x","no_timeout":true}`, "no_timeout", "`no_timeout=true` requires empty `chars`"},
		{"write_stdin", `{"session_id":1000,"no_timeout":true,"yield_time_ms":0}`, "no_timeout", "`no_timeout=true` requires `yield_time_ms` to be omitted"},
		{"read_output", `{"session_id":1000,"offset":0,"tail":1}`, "tail", "combined with offset"},
		{"read_output", `{"session_id":1000,"pattern":"("}`, "pattern", "missing closing )"},
		{"terminate_process", `{"session_id":1000,"grace_ms":"0"}`, "grace_ms", "must be a number"},
		{"send_signal", `{"session_id":1000,"signal":"NOPE"}`, "signal", "no signal"},
		{"send_signal", `{"session_id":1000,"signal":9}`, "signal", "must be a string"},
		{"resize", `{"session_id":1000,"rows":0,"cols":80}`, "rows", "out of range"},
		{"resize", `{"session_id":1000,"rows":24,"cols":65536}`, "cols", "out of range"},
	} {
		answer := call(t, set, test.tool, test.arguments)
		if answer.Err == nil || answer.Err.Code != messages.ErrInvalidRequest || answer.Err.Subject != test.subject || answer.Structured != nil {
			t.Errorf("%s %s: %+v", test.tool, test.arguments, answer)
			continue
		}
		expect.Contains(t, answer.Text, "failed to parse function arguments: "+test.subject+": ", test.says, "Correct the named argument")
	}
	if answer := call(t, set, "exec", `{}`); answer.Err == nil || answer.Err.Subject != "exec" {
		t.Errorf("an unknown tool: %+v", answer)
	}
}

// Models add arguments that other tools have. The call is made without them, and both forms of its answer say so first.
func TestUnknownArgumentsAreIgnoredWithANote(t *testing.T) {
	set, _ := open(t)
	id := *structured[tools.Outcome](t, call(t, set, "exec_command", `{"cmd":"read x","tty":true,"yield_time_ms":0}`)).SessionID
	for _, test := range []struct{ tool, arguments, note string }{
		{"exec_command", `{"cmd":"echo hi","timeout_ms":1,"CMD":null}`, `Ignored: there is no argument "timeout_ms", "CMD"; there are cmd, workdir`},
		{"write_stdin", fmt.Sprintf(`{"session_id":%d,"input":"x","chars":"","chars_":[],"yield_time_ms":0}`, id), `Ignored: there is no argument "input", "chars_"; there are session_id, chars`},
		{"read_output", fmt.Sprintf(`{"session_id":%d,"lines":5}`, id), `Ignored: there is no argument "lines"; there are session_id, offset`},
		{"list_processes", `{"all":{}}`, `Ignored: there is no argument "all"; there are include_ended`},
		{"send_signal", fmt.Sprintf(`{"session_id":%d,"signal":"WINCH","pid":1}`, id), `Ignored: there is no argument "pid"; there are session_id, signal, tree`},
		{"resize", fmt.Sprintf(`{"session_id":%d,"rows":3,"cols":4,"x":1}`, id), `Ignored: there is no argument "x"; there are session_id, rows, cols`},
		{"terminate_process", fmt.Sprintf(`{"session_id":%d,"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}`, id),
			`Ignored: there is no argument "a", "b", "c", "d", "e", "f", "g", "h"; there are session_id, grace_ms`},
	} {
		answer := call(t, set, test.tool, test.arguments)
		said := struct{ Notes []string }{}
		if encoded, err := json.Marshal(answer.Structured); err != nil || json.Unmarshal(encoded, &said) != nil || answer.Err != nil {
			t.Fatalf("%s %s: %v, %+v", test.tool, test.arguments, err, answer)
		}
		if !strings.HasPrefix(answer.Text, test.note) || len(said.Notes) == 0 || !strings.HasPrefix(said.Notes[0], test.note) {
			t.Errorf("%s %s: %q, notes %q", test.tool, test.arguments, answer.Text, said.Notes)
		}
	}
	if answer := call(t, set, "write_stdin", `{"session_id":99999,"x":1}`); answer.Err == nil || !strings.HasPrefix(answer.Text, `Ignored: there is no argument "x"`) {
		t.Errorf("an error: %+v", answer)
	}
}

// An argument that is left out is not zero, null means left out, and zero is raised to the smallest value.
func TestNumbers(t *testing.T) {
	set, _ := open(t)
	for _, arguments := range []string{
		`{"cmd":"echo hi","yield_time_ms":null,"max_output_tokens":null,"tty":null,"workdir":null,"sandbox_permissions":null,"justification":null}`,
		`{"cmd":"echo hi","yield_time_ms":1e300,"max_output_tokens":1e300}`,
		`{"cmd":"echo hi","yield_time_ms":2500.75}`,
	} {
		o := structured[tools.Outcome](t, call(t, set, "exec_command", arguments))
		if o.Output != "hi\n" || *o.ExitCode != 0 {
			t.Errorf("%s: %+v", arguments, o)
		}
	}
	var o tools.Outcome
	late := func() bool { return o.WallTimeSeconds > 9 }                                         // as with the default
	for tries := 0; tries == 0 || tries < 40 && o.Output == "" || tries < 4 && late(); tries++ { // on a busy machine the answer may come before the output, or late
		o = structured[tools.Outcome](t, call(t, set, "exec_command", `{"cmd":"echo hi; exec sleep 60","yield_time_ms":0,"max_output_tokens":0}`))
	}
	if o.SessionID == nil || o.WallTimeSeconds < 0.25 || late() {
		t.Errorf("a yield of zero is not the least there is: %+v", o)
	}
	expect.Contains(t, o.Output, "…1 tokens truncated…")
	if *o.OriginalTokenCount != 1 {
		t.Error(*o.OriginalTokenCount)
	}
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{}`, `{"session_id":1000}`, `{"session_id":1e9,"chars":"x","yield_time_ms":0}`, `[`, `{"a":1,"a":2}`, `{"session_id":null}`, "\xff", `{"session_id":1}x`} {
		f.Add([]byte(seed))
	}
	parameters := tools.List(tools.Options{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, tool := range parameters {
			said, err := tools.Parse(tool.Name, raw)
			if err == nil && len(said) > 0 && !json.Valid(raw) {
				t.Errorf("%s takes %q, which is not JSON", tool.Name, raw)
			}
			tools.ProcessesOf(raw)
		}
	})
}
