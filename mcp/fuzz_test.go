package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// nothing is a spawner that starts no program, whatever the input of a fuzzer asks for.
type nothing struct{}

func (nothing) Resolver() ptyio.Resolver { return ptyio.Local() }
func (nothing) Close() error             { return nil }
func (nothing) Prompt()                  {}

func (nothing) Spawn(context.Context, ptyio.Launch) (ptyio.Child, error) {
	return nil, &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Detail: "nothing is started here"}
}

func (nothing) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	return ptyio.Enclosed(c), nil
}

func (nothing) Can(ptyio.Launch) (messages.Enforcement, error) {
	return messages.Enforcement{Level: messages.AssuranceIsolated}, nil
}

// FuzzStream sends lines to a server, behind a good handshake or instead of it. Every line that comes back must be a message of the
// protocol, and the server must end with its input.
func FuzzStream(f *testing.F) {
	call := func(id int, tool, arguments string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments) + "\n"
	}
	for _, seed := range []string{"", "{", "[]\n", "null", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"1.0","id":1,"method":"x"}`,
		call(1, "exec_command", `{"cmd":"true","yield_time_ms":0}`) + call(2, "write_stdin", `{"session_id":1000,"chars":"x"}`),
		call(1, "exec_command", `{"cmd":["true"]}`) + call(1, "read_output", `{"session_id":-1,"tail":1e9}`) + call(3, "list_processes", `null`),
		call(1, "exec_command", `{"cmd":"rm -rf /"}`) + `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n" + `{"jsonrpc":"2.0","id":"x","method":"resources/subscribe","params":{"uri":"execbus://processes/1000"}}`,
		strings.Repeat("[", 5000)} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	runtime, err := execbus.Start(execbus.Options{Spawner: nothing{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := runtime.Shutdown(context.Background()); err != nil {
			f.Error(err)
		}
	})
	server, err := NewServer(runtime, Options{Session: execbus.SessionOptions{Dir: f.TempDir(), NoLoginShell: true}, QuestionPatience: time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, text []byte, polite bool) {
		input := string(text)
		if polite {
			input = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}` +
				"\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + input
		}
		var out bytes.Buffer
		if err := server.ServeStream(context.Background(), strings.NewReader(input), &out); err != nil && !errors.Is(err, io.EOF) {
			t.Logf("it ended with %v", err)
		}
		for line := range strings.Lines(out.String()) {
			var m struct {
				Version string `json:"jsonrpc"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Version != "2.0" {
				t.Fatalf("%q is no message of the protocol", line)
			}
		}
	})
}
