package execbus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// A confined command finds no output of others in the directory of the files, and cannot write there, even if the directory is in its workspace.
func TestAConfinedCommandHasNoPartInFilesOfOutput(t *testing.T) {
	workspace := t.TempDir()
	dir := filepath.Join(workspace, "output")
	rt := newRuntime(t, execbus.Options{Spool: execbus.SpoolOptions{Dir: dir}})
	session := openSession(t, rt, execbus.SessionOptions{Dir: workspace, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}})
	const n = count(200_000)
	result, err := session.Exec(patient(t), messages.ExecCommand{Yield: new(messages.MaxYield), Argv: []string{"bash", "-c", fmt.Sprintf(
		`%s; exec 2>&1; touch here && echo here; ls -A %[2]s | wc -l; touch %[2]s/x && echo WRITTEN; mv %[2]s away && echo MOVED; rm -r %[2]s && echo REMOVED; true`, n.script(), dir)}})
	if refusal, is := errors.AsType[*messages.Error](err); is && refusal.Enforceable != "" {
		t.Skipf("skipped: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	said := string(result.Output[len(result.Output)-1000:])
	for _, not := range []string{"WRITTEN", "MOVED", "REMOVED"} {
		if strings.Contains(said, not) {
			t.Errorf("the command has changed the directory: %s", said)
		}
	}
	if !strings.Contains(said, "here\n0\n") {
		t.Errorf("the command found something, or could not write in its workspace: %s", said)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	if page := read(t, session, messages.ReadOutput{Process: result.Process, Offset: new(n.middle()), Max: 100}); n.expect(t, page, n.middle()) != n.middle()+100 {
		t.Error("its own output is not kept")
	}
}
