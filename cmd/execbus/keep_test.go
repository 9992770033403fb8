package main

import (
	"errors"
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
	dir := filepath.Join(state, "execbus", "kept")
	are := func(want []string) {
		t.Helper()
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("%v, %v, want %v", left, err, want)
		}
	}
	are(names[2:])
	kept(false, "--output-total", "512K") // one that has more stays alone
	are(names[3:])
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if code, out, said := runs(t, "", "--keep-output", "--assurance", "confined", "--cd", t.TempDir(), "--", "sh", "-c", "echo a; exit 3"); code != 3 || out != "a\n" || !strings.Contains(said, dir) {
		t.Errorf("without a place for it: exit code %d, %q, %q", code, out, said)
	}
}
