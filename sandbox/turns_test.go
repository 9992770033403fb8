//go:build linux

package sandbox_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// A command inherits the filter of the thread that starts it, and each filter has threads of its own in a warden. In any order of
// starts under many policies, each command must get the filter of its own.
func TestCommandsInheritOnlyWhatTheirOwnPolicyDemands(t *testing.T) {
	t.Parallel() // it waits most of the time
	const script = `sed -n 's/^\(NoNewPrivs\|Seccomp\):\t//p' /proc/self/status
touch "$1/new" 2>/dev/null && echo writes
chmod 600 "$1/old" 2>/dev/null && echo changes modes
(: </dev/tcp/127.0.0.1/1) 2>&1 | grep -q refused && echo has a network`
	spawner := newSpawner(t, sandbox.Options{WithoutNamespaces: true})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	under := func(policy messages.SandboxPolicy) ptyio.Enclosure {
		return enclose(t, spawner, ptyio.Confinement{Dir: dir, Least: messages.AssuranceConfined, Policy: policy})
	}
	cases := []struct {
		enclosure ptyio.Enclosure
		want      string
	}{
		{nil, strings.ReplaceAll(strings.ReplaceAll(ours(t), "NoNewPrivs:", ""), "Seccomp:", "") + "\nwrites\nchanges modes\nhas a network"},
		{under(messages.SandboxPolicy{Type: messages.SandboxReadOnly}), "1\n2"},
		{under(messages.SandboxPolicy{Type: messages.SandboxReadOnly, NetworkAccess: true}), "1\n2\nhas a network"},
		{under(messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}), "1\n2\nwrites\nchanges modes"},
		{under(messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, NetworkAccess: true}), "1\n2\nwrites\nchanges modes\nhas a network"},
	}
	for range 4 {
		records := map[int]*recorder{}
		for _, i := range rand.Perm(2 * len(cases)) {
			l := bash(i < len(cases), script, dir)
			l.Sandbox = cases[i%len(cases)].enclosure
			_, records[i] = run(t, spawner, l)
		}
		for i, record := range records {
			record.awaitEnd(t)
			if got := strings.TrimSpace(strings.ReplaceAll(record.output.String(), "\r", "")); got != cases[i%len(cases)].want {
				t.Errorf("%d: %s", i, got)
			}
		}
	}
}
