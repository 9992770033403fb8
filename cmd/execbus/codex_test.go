package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// model is a scripted model: it starts a command that becomes cat, writes to it, and is done; or it makes its own calls.
type model struct {
	calls     []scripted // two; nil: those with cat
	namespace string     // of the tools that it calls
	command   string     // the command before it becomes cat
	sandbox   string     // of the client; empty means danger-full-access
	dir       string     // where the client works; empty means a new directory
	machines  string     // the client's file environments.toml; empty means none
	offered   []string   // the names of the tools that the client offers it, without those in namespaces
	told      []string   // the outputs of its calls, as the client reported them, newest last
}

// scripted is a call of a tool.
type scripted struct {
	name      string
	arguments map[string]any
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Input []struct {
			Type   string
			Output json.RawMessage
		}
		Tools []struct{ Name string }
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&request) != nil {
		http.NotFound(w, r)
		return
	}
	m.told, m.offered = nil, nil
	for _, tool := range request.Tools {
		m.offered = append(m.offered, tool.Name)
	}
	for _, item := range request.Input {
		if item.Type == "function_call_output" {
			m.told = append(m.told, string(item.Output))
		}
	}
	call := func(name string, arguments any) any {
		encoded, _ := json.Marshal(arguments) // a map of plain values
		item := map[string]any{"type": "function_call", "call_id": "c" + fmt.Sprint(len(m.told)), "name": name, "arguments": string(encoded)}
		if m.namespace != "" {
			item["namespace"] = m.namespace
		}
		return item
	}
	var item any
	switch n := len(m.told); {
	case n < len(m.calls):
		item = call(m.calls[n].name, m.calls[n].arguments)
	case n == 0:
		item = call("exec_command", map[string]any{"cmd": m.command + "; exec cat", "tty": true, "yield_time_ms": 250})
	case n == 1 && m.calls == nil:
		id := regexp.MustCompile(`(?i)session[_ ]id\W+(\d+)`).FindStringSubmatch(m.told[0])
		if id == nil {
			id = []string{"", "0"}
		}
		item = call("write_stdin", map[string]any{"session_id": json.Number(id[1]), "chars": "moin\n\u0004", "yield_time_ms": 30_000})
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

// turn runs one turn of codex, an independent agent, with a scripted model: npm install -g @openai/codex.
func (m *model) turn(t *testing.T, config string, environment ...string) {
	t.Helper()
	codex, err := exec.LookPath("codex")
	if err != nil {
		t.Skip("skipped: codex is not installed (npm install -g @openai/codex)")
	}
	front := httptest.NewServer(m)
	defer front.Close()
	home := t.TempDir()
	config = fmt.Sprintf(`model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = %q
[model_providers.scripted]
name = "scripted"
base_url = %q
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`, cmp.Or(m.sandbox, "danger-full-access"), front.URL+"/v1") + config
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if m.machines != "" {
		if err := os.WriteFile(filepath.Join(home, "environments.toml"), []byte(m.machines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), codex, "exec", "--skip-git-repo-check", "run it")
	c.Dir, c.Env = cmp.Or(m.dir, t.TempDir()), append(append(os.Environ(), "CODEX_HOME="+home), environment...)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all done") {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(m.told) != 2 {
		t.Fatalf("the model was told %q", m.told)
	}
}

// The configurations for codex on the page for clients work as they stand, also where nobody can be asked.
func TestTheConfigurationsForCodexWork(t *testing.T) {
	if probed := sandbox.Probe(); probed.Level == messages.AssuranceNone {
		t.Skipf("skipped: nothing can be confined here: %+v", probed)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=execbus exec '%s' \"$@\"\n", roleVariable, self)
	if err := os.WriteFile(filepath.Join(bin, "execbus"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../mcp/README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	path := "PATH=" + bin + ":" + os.Getenv("PATH")
	m := &model{namespace: "mcp__execbus", command: "echo from execbus $((6*7))", sandbox: "workspace-write"}
	m.turn(t, blocks[0][1], path)
	if all := strings.Join(m.told, ""); !strings.Contains(all, "from execbus 42") || !strings.Contains(all, `moin\\r\\n`) || slices.Contains(m.offered, "exec_command") {
		t.Errorf("the model was offered %q and told %q", m.offered, m.told)
	}
	patch := func(was, is string) string {
		return "*** Begin Patch\n*** Update File: file\n@@\n-" + was + "\n+" + is + "\n*** End Patch"
	}
	m = &model{namespace: "mcp__execbus", dir: t.TempDir(), sandbox: "workspace-write", calls: []scripted{{"apply_patch", map[string]any{"input": patch("one", "two")}},
		{"exec_command", map[string]any{"cmd": "apply_patch <<'EOF'\n" + patch("two", "three") + "\nEOF"}}}}
	if err := os.WriteFile(filepath.Join(m.dir, "file"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.turn(t, blocks[0][1], path, "HOME="+t.TempDir())
	if got, err := os.ReadFile(filepath.Join(m.dir, "file")); err != nil || string(got) != "three\n" || strings.Count(strings.Join(m.told, ""), "Success. Updated") < 2 {
		t.Errorf("%q, %v; the model was told %q", got, err, m.told)
	}
	m = &model{command: "cat /proc/$PPID/comm", machines: blocks[1][1]}
	m.turn(t, "", path)
	if all := strings.Join(m.told, ""); !strings.Contains(all, `execbus-warden\r\n`) || !strings.Contains(all, `moin\r\n`) {
		t.Errorf("the model was told %q", m.told)
	}
}

// The agent's own tools run their commands on our server, whose warden is the parent of each.
func TestCodexRunsCommandsThroughTheExecServer(t *testing.T) {
	if _, err := exec.LookPath("codex"); err != nil {
		t.Skip("skipped: codex is not installed (npm install -g @openai/codex)")
	}
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the parent of a process has no name in /proc here")
	}
	server := launch(t, "serve")
	m := &model{command: "cat /proc/$PPID/comm"}
	m.turn(t, "[features]\nunified_exec = true\n", "CODEX_EXEC_SERVER_URL="+server.line())
	if all := strings.Join(m.told, ""); !strings.Contains(all, `execbus-warden\r\n`) || !strings.Contains(all, `moin\r\n`) {
		t.Errorf("the model was told %q", m.told)
	}
}

// The server enforces the sandbox that the agent asks for.
func TestTheExecServerEnforcesTheSandboxesOfCodex(t *testing.T) {
	if _, err := exec.LookPath("codex"); err != nil {
		t.Skip("skipped: codex is not installed (npm install -g @openai/codex)")
	}
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("skipped: the agent protects names in its workspace, which needs namespaces, and this machine allows %q", probed.Level)
	}
	server := launch(t, "serve")
	url := server.line()
	for mode, inside := range map[string]bool{"workspace-write": true, "read-only": false} {
		t.Run(mode, func(t *testing.T) {
			dirs := [2]string{}
			for i := range dirs {
				dir, err := os.MkdirTemp("/var/tmp", "execbus") // /tmp may be written in any case
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(dir)
				dirs[i] = dir
			}
			m := &model{sandbox: mode, dir: dirs[0], command: "echo confined; touch inside " + dirs[1] + "/outside; mkdir .git .aws"}
			m.turn(t, "[features]\nunified_exec = true\n", "CODEX_EXEC_SERVER_URL="+url)
			if all := strings.Join(m.told, ""); !strings.Contains(all, "confined") || !strings.Contains(all, `moin\r\n`) {
				t.Errorf("the model was told %q", m.told)
			}
			for file, there := range map[string]bool{dirs[0] + "/inside": inside, dirs[0] + "/.git/": false, dirs[0] + "/.aws/": false, dirs[1] + "/outside": false} {
				if _, err := os.Stat(file); (err == nil) != there {
					t.Errorf("%s: %v; the model was told %q", file, err, m.told)
				}
			}
		})
	}
}
