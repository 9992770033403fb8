//go:build linux

package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/execbus/execbus/sandbox"
)

func TestAnEntryThatAHostHasNotFinishedIsForgotten(t *testing.T) {
	state, dead := t.TempDir(), exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	left, begun := filepath.Join(state, fmt.Sprintf(".new-%d-1", dead.Process.Pid)), filepath.Join(state, fmt.Sprintf(".new-%d-1", os.Getpid()))
	for _, path := range []string{left, begun} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newSpawner(t, sandbox.Options{StateDir: state})
	eventually(t, "that of the dead host is gone", func() bool { return !exists(left) })
	if !exists(begun) {
		t.Error("that of a living host is gone, too")
	}
}
