package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// model is a model that says what a test wants: it starts cat through the tools of execbus, writes to it, and is done.
type model struct {
	told []string // what the client told it: the outputs of its calls, newest last
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Input []struct {
			Type   string
			Output json.RawMessage
		}
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
		http.NotFound(w, r)
		return
	}
	m.told = nil
	for _, item := range request.Input {
		if item.Type == "function_call_output" {
			m.told = append(m.told, string(item.Output))
		}
	}
	call := func(name string, arguments any) any {
		encoded, _ := json.Marshal(arguments) // a map of plain values
		return map[string]any{"type": "function_call", "call_id": "c" + fmt.Sprint(len(m.told)), "namespace": "mcp__execbus", "name": name, "arguments": string(encoded)}
	}
	var item any
	switch len(m.told) {
	case 0:
		item = call("exec_command", map[string]any{"cmd": "echo from execbus $((6*7)); exec cat", "tty": true, "yield_time_ms": 250})
	case 1:
		id := regexp.MustCompile(`session_id\W+(\d+)`).FindStringSubmatch(m.told[0])
		if id == nil {
			id = []string{"", "0"}
		}
		item = call("write_stdin", map[string]any{"session_id": json.Number(id[1]), "chars": "moin\n\u0004"})
	default:
		item = map[string]any{"type": "message", "role": "assistant", "id": "m", "content": []any{map[string]any{"type": "output_text", "text": "all done"}}}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []map[string]any{
		{"type": "response.created", "response": map[string]any{"id": "r"}},
		{"type": "response.output_item.done", "item": item},
		{"type": "response.completed", "response": map[string]any{"id": "r", "usage": map[string]any{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}}},
	} {
		encoded, _ := json.Marshal(event) // plain values
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], encoded)
	}
}

// An agent that somebody else has written, in a turn with a model that is a script: npm install -g @openai/codex.
func TestCodexRunsCommandsThroughMCP(t *testing.T) {
	codex, err := exec.LookPath("codex")
	if err != nil {
		t.Skip("skipped: codex is not installed (npm install -g @openai/codex)")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scripted := &model{}
	front := httptest.NewServer(scripted)
	defer front.Close()
	home := t.TempDir()
	config := fmt.Sprintf(`model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.scripted]
name = "scripted"
base_url = %q
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[mcp_servers.execbus]
command = %q
args = ["mcp", "--no-login-shell"]
[mcp_servers.execbus.env]
%s = "execbus"
`, front.URL+"/v1", self, roleVariable)
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), codex, "exec", "--skip-git-repo-check", "run it")
	c.Dir, c.Env = t.TempDir(), append(os.Environ(), "CODEX_HOME="+home)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all done") {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(scripted.told) != 2 || !strings.Contains(scripted.told[0], "from execbus 42") || !strings.Contains(scripted.told[1], `moin\\r\\nmoin`) {
		t.Errorf("the model was told %q", scripted.told)
	}
}
