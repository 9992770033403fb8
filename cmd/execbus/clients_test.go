package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// clientEntry is how a client starts the server.
type clientEntry struct {
	Type    string
	Command string
	Args    []string
}

// Each client can read the configuration that mcp/README.md gives for it, and the program understands the command in it.
func TestTheConfigurationsOfClientsAreTrue(t *testing.T) {
	home(t, "")
	page, err := os.ReadFile("../../mcp/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var entries []clientEntry
	for _, block := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		var content struct {
			Codex  map[string]clientEntry `toml:"mcp_servers" json:"-"`
			Claude map[string]clientEntry `json:"mcpServers"`
			VSCode map[string]clientEntry `json:"servers"`
		}
		read := json.Unmarshal
		if block[1] == "toml" {
			read = toml.Unmarshal
		}
		if err := read([]byte(block[2]), &content); err != nil {
			t.Errorf("%v in\n%s", err, block[2])
		}
		for _, servers := range []map[string]clientEntry{content.Codex, content.Claude, content.VSCode} {
			if e, found := servers["execbus"]; found {
				entries = append(entries, e)
			}
		}
	}
	for _, line := range regexp.MustCompile("`(?:claude mcp add execbus -- )?(execbus mcp[^`]*)`").FindAllStringSubmatch(string(page), -1) {
		words := strings.Fields(strings.Replace(line[1], "FILE", "/file", 1))
		entries = append(entries, clientEntry{Command: words[0], Args: words[1:]})
	}
	if len(entries) < 5 {
		t.Errorf("only %d entries were found", len(entries))
	}
	for _, e := range entries {
		if e.Command != "execbus" || e.Args[0] != "mcp" || e.Type != "" && e.Type != "stdio" {
			t.Errorf("%+v", e)
		}
		if slices.Contains(e.Args, "--help") {
			continue
		}
		if _, code, wrong := configured(t, "mcp", e.Args[1:]...); code != 0 {
			t.Errorf("%q: %s", e.Args, wrong)
		}
	}
}

// Codex has a file of its own on the page, and reads it.
func TestCodexReadsItsConfiguration(t *testing.T) {
	codex, err := exec.LookPath("codex")
	if err != nil {
		t.Skip("skipped: codex is not installed (npm install -g @openai/codex)")
	}
	page, err := os.ReadFile("../../mcp/README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```toml\n(.*?)```").FindSubmatch(page)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), block[1], 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), codex, "mcp", "get", "execbus")
	c.Env = append(os.Environ(), "CODEX_HOME="+dir)
	out, err := c.CombinedOutput()
	for _, fact := range []string{"enabled: true", "command: execbus", "args: mcp\n", "tool_timeout_sec: 330"} {
		if err != nil || !strings.Contains(string(out), fact) {
			t.Errorf("%q is not in %s, %v", fact, out, err)
		}
	}
}
