package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The MCP Inspector's command line is an independent client: npm install -g @modelcontextprotocol/inspector.
func TestTheMCPInspectorSeesAndCallsTheTools(t *testing.T) {
	inspector, err := exec.LookPath("mcp-inspector")
	if err != nil {
		t.Skip("skipped: mcp-inspector is not installed (npm install -g @modelcontextprotocol/inspector)")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inspect := func(arguments ...string) string {
		t.Helper()
		all := append([]string{"-e", roleVariable + "=execbus", "--cli", self, "mcp", "--no-login-shell", "--method"}, arguments...)
		out, err := exec.CommandContext(t.Context(), inspector, all...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
	listed := inspect("tools/list")
	for _, name := range []string{"exec_command", "write_stdin", "read_output", "list_processes", "terminate_process", "send_signal", "resize"} {
		if !strings.Contains(listed, `"name": "`+name+`"`) {
			t.Errorf("%s is not listed", name)
		}
	}
	for _, test := range []struct {
		arguments []string
		says      string
	}{
		{[]string{"--tool-name", "exec_command", "--tool-arg", "cmd=echo hi; exit 3"}, `"exit_code": 3`},
		{[]string{"--tool-name", "write_stdin", "--tool-arg", "session_id=77777", "--tool-arg", "chars=x"}, "unknown_process"},
	} {
		if out := inspect(append([]string{"tools/call"}, test.arguments...)...); !strings.Contains(out, test.says) {
			t.Errorf("%v: %s", test.arguments, out)
		}
	}
}
