package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParametersAreReadByTheirNames(t *testing.T) {
	var start StartParams
	err := DecodeParams(json.RawMessage(`{"processId":"p","argv":["a","b"],"cwd":"/","env":{"http_proxy":"1","HTTP_PROXY":"2"},"tty":false,
		"arg0":null,"future":{"x":1},"envPolicy":{"inherit":"core","future":1},"size":{"rows":2,"cols":3},
		"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"path","path":"/w"},"access":"read"}]}},"future":1}}`), &start)
	switch {
	case err != nil:
		t.Fatal(err)
	case start.ProcessID != "p" || len(start.Argv) != 2 || len(start.Env) != 2 || start.Arg0 != nil || start.EnvPolicy.Inherit != "core":
		t.Errorf("got %+v", start)
	case start.Size.Cols != 3 || start.Sandbox.Permissions.FileSystem.Entries[0].Access != AccessRead || start.PipeStdin:
		t.Errorf("got %+v", start)
	}
}

func TestWrongParametersAreNamed(t *testing.T) {
	start := func(more string) string {
		return `{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false` + more + `}`
	}
	for text, why := range map[string]string{
		``:     "params.processId is missing",
		`null`: "params is null",
		`[]`:   "params is not an object",
		`{"PROCESSID":"p","argv":[],"cwd":"/","env":{},"tty":false}`: "params.processId is missing",
		`{"processId":7}`:                                                "params.processId is not a string",
		`{"processId":null}`:                                             "params.processId is null",
		`{"processId":"p","argv":"a"}`:                                   "params.argv is not an array",
		`{"processId":"p","argv":[1]}`:                                   "params.argv is not a string",
		start(`,"arg0":1`):                                               "params.arg0 is not a string",
		start(`,"pipeStdin":null`):                                       "params.pipeStdin is null",
		start(`,"pipeStdin":"yes"`):                                      "params.pipeStdin is not true or false",
		start(`,"size":{"rows":70000,"cols":1}`):                         "params.size.rows is not a whole number",
		start(`,"size":{"rows":-1,"cols":1}`):                            "params.size.rows is not a whole number",
		start(`,"size":{"rows":1.5,"cols":1}`):                           "params.size.rows is not a whole number",
		start(`,"size":{"rows":1}`):                                      "params.size.cols is missing",
		start(`,"sandbox":{}`):                                           "params.sandbox.permissions is missing",
		start(`,"sandbox":{"permissions":{"type":"disabled","deny":1}}`): "params.sandbox.permissions.deny is not known",
		start(`,"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"path"},"access":"read"},{"access":"read"}]}}}`): "params.sandbox.permissions.file_system.entries[1].path is missing",
		start(`,"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"path","x":1},"access":"read"}]}}}`):             "params.sandbox.permissions.file_system.entries[0].path.x is not known",
		start(`,"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":{}}}}`):                                                           "params.sandbox.permissions.file_system.entries is not an array",
		start(`,"limits":{"memory":5}`):       "params.limits.memory is not known",
		start(`,"limits":{"memoryBytes":-5}`): "negative",
		start(`,"envPolicy":{"set":{"A":1}}`): "params.envPolicy.set is not a string",
	} {
		err := DecodeParams(json.RawMessage(text), &StartParams{})
		fault, is := errors.AsType[*Fault](err)
		if !is || fault.Code != InvalidParams || !strings.Contains(fault.Message, why) {
			t.Errorf("%s: got %v, want %q", text, err, why)
		}
	}
}

func TestBase64IsTheStandardOne(t *testing.T) {
	var chunk Chunk
	for text, want := range map[string]string{`""`: "", `"aGk="`: "hi", `"aGk\u003d"`: "hi", `"\/\/\/\/"`: "\xff\xff\xff"} {
		if err := json.Unmarshal([]byte(text), &chunk); err != nil || string(chunk) != want {
			t.Errorf("%s: got %q, %v", text, chunk, err)
		}
	}
	for _, text := range []string{`"aGk"`, `"a"`, `"aG-_"`, `"aGl="`, `"aGk=\n"`, `"aG k="`, `1`, `{}`} {
		if err := json.Unmarshal([]byte(text), &chunk); err == nil {
			t.Errorf("%s became %q", text, chunk)
		}
	}
	for n := range 5 {
		data := bytes.Repeat([]byte{0xfe}, n)
		text, err := json.Marshal(Chunk(data))
		if err == nil {
			err = json.Unmarshal(text, &chunk)
		}
		if err != nil || !bytes.Equal(chunk, data) {
			t.Errorf("%d bytes: got %q, %v", n, chunk, err)
		}
	}
}

// FuzzParse compares the scanner with encoding/json. All text that the scanner accepts is JSON, and the scanner adds only its bounds.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"id":1,"method":"m","params":{"a":[1,-2.5e3,"x\u0041é",null,true]}}`, `{"id":"x","error":{"code":1,"message":"m"}}`,
		`{"method":"m","params":{"a":1,"a":2}}`, `{"`, "{\"\xff\":1}", `{"id":1,"result":{"\ud800":[]}}`, "\x00\x01p\x05\x02chunk"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		if !json.Valid(text) && text[0] != rawMark {
			t.Fatalf("%q is not JSON", text)
		}
		_, _ = DecodeOutput(m.Params)
		for _, into := range []any{&StartParams{}, &ReadParams{}, &WriteParams{}, &InitializeParams{}, &ExitedParams{}, &EndedParams{}} {
			_ = DecodeParams(m.Params, into)
		}
	})
}
