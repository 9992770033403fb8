package mcp

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus/tests/expect"
)

// The client's question about a patch shows what would change, whichever tool brings the patch.
func TestAClientIsAskedAboutAPatch(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, []byte("one\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			patch := func(was, is string) string {
				return "*** Begin Patch\n*** Update File: " + file + "\n@@\n-" + was + "\n+" + is + "\n*** End Patch"
			}
			var asked atomic.Int32
			client := person(func(params *sdk.ElicitParams) *sdk.ElicitResult {
				asked.Add(1)
				expect.Contains(t, params.Message, "Apply this patch?", "-one\n+two\n", "Reason: ")
				return says("approved_for_session", "")(params)
			})
			session := connect(t, untrusted(), client, version)
			result := call(t, session, "apply_patch", map[string]any{"input": patch("one", "two")})
			if expect.Contains(t, textOf(result), "Success. Updated the following files:\nM "+file); result.IsError {
				t.Error(textOf(result))
			}
			files := result.StructuredContent.(map[string]any)["files"].([]any)
			if len(files) != 1 || files[0].(map[string]any)["kind"] != "update" || files[0].(map[string]any)["state"] != "changed" {
				t.Errorf("%v", files)
			}
			// The same file again: it is not asked about.
			result = call(t, session, "exec_command", map[string]any{"cmd": "apply_patch <<'EOF'\n" + patch("two", "three") + "\nEOF"})
			if expect.Contains(t, textOf(result), "Exit code: 0", "Success. Updated the following files:\nM "+file); result.IsError {
				t.Error(textOf(result))
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != "three\n" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}
