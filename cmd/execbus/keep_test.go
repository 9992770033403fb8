package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All output of a command is in a file of the user, whose name is said; beyond the quota the middle is missing, and the oldest files make room.
func TestRunKeepsOutput(t *testing.T) {
	confinedHere(t)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	var names []string
	kept := func(whole bool, args ...string) string {
		t.Helper()
		args = append(append([]string{"--keep-output", "--assurance", "confined", "--cd", t.TempDir()}, args...), "--", "seq", "300000")
		code, out, said := runs(t, "", args...)
		name := strings.TrimSuffix(said[strings.LastIndex(said, " ")+1:], "\n")
		content, err := os.ReadFile(name)
		if code != 0 || err != nil || !strings.HasPrefix(name, filepath.Join(state, "execbus", "kept")) {
			t.Fatalf("%d, %q, %v", code, said, err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if (string(content) == out) != whole {
			t.Errorf("%v: %d bytes of %d", args, len(content), len(out))
		}
		names = append(names, name)
		return string(content)
	}
	kept(true)
	if text := kept(false, "--output-quota", "512K"); !strings.HasPrefix(text, "1\n2\n") || !strings.HasSuffix(text, "\n300000\n") || strings.Count(text, " bytes omitted ...") != 1 {
		t.Errorf("with a quota: %d bytes, %.20q", len(text), text)
	}
	kept(true, "--output-total", "3M")
	left, err := filepath.Glob(filepath.Join(state, "execbus", "kept", "*"))
	if err != nil || fmt.Sprint(left) != fmt.Sprint(names[2:]) {
		t.Errorf("%v, want %v", left, names[2:])
	}
}
