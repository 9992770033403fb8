package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/audit"
)

// TestAnAuditLogOfARun is written by run, and read by the three commands about it.
func TestAnAuditLogOfARun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	out, errs, code := program(t, "run", "--audit", file, "--sandbox", "danger-full-access", "--no-tty", "--", "sh", "-c", "echo a && exit 3")
	if code != 3 {
		t.Fatal(code, out, errs)
	}
	out, errs, code = program(t, "audit", "verify", file)
	if code != 0 || !strings.HasPrefix(out, "complete: 5 lines of 1 run\nanchor: 5:") {
		t.Fatal(code, out, errs)
	}
	_, anchor, _ := strings.Cut(strings.TrimSpace(out), "anchor: ")
	out, _, code = program(t, "audit", "show", file)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != 0 || len(lines) != 5 {
		t.Fatal(code, out)
	}
	for i, want := range []string{"run 1 begins: pid ", "allowed by policy, without a sandbox: sh -c 'echo a && exit 3'", "started: sh -c 'echo a && exit 3' in ", "ended: it exited with code 3", "the run ends"} {
		if !strings.HasPrefix(lines[i], fmt.Sprintf("%6d  ", i+1)) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i+1, lines[i], want)
		}
	}
	for _, c := range []struct {
		args  []string
		code  int
		lines int
	}{
		{[]string{"grep", "exit 3", file}, 0, 2},
		{[]string{"grep", "--kind", "exec_started", "exit 3", file}, 0, 1},
		{[]string{"grep", "--json", `"kind":"exec_ended"`, file}, 0, 1},
		{[]string{"grep", "nowhere", file}, exitNothing, 0},
		{[]string{"grep", "(", file}, exitMisused, 0},
		{[]string{"grep", file}, exitMisused, 0},
		{[]string{"show", "--process", "7", file}, 0, 0},
		{[]string{"show", "--session", "x", file}, 0, 0},
		{[]string{"show", "--kind", "exec_started", "--kind", "exec_ended", file}, 0, 2},
		{[]string{"show"}, exitMisused, 0},
		{[]string{"show", file + ".none"}, exitFailed, 0},
		{[]string{"verify"}, exitMisused, 0},
		{[]string{"verify", file + ".none"}, exitFailed, 0},
		{[]string{"verify", "--anchor", "5", file}, exitMisused, 0},
		{[]string{"verify", "--anchor", anchor, file}, 0, 2},
		{[]string{"verify", "--anchor", "5:" + strings.Repeat("0", 64), file}, exitFailed, 2},
		{[]string{"verify", "--anchor", "6" + anchor[1:], file}, exitFailed, 2},
	} {
		out, errs, code := program(t, append([]string{"audit"}, c.args...)...)
		if code != c.code || strings.Count(out, "\n") != c.lines {
			t.Errorf("%q: %d\n%s%s", c.args, code, out, errs)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "exit 3", "exit 4", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, code := program(t, "audit", "verify", "--json", file); code != exitFailed || !json.Valid([]byte(out)) || !strings.Contains(out, `"state":"broken"`) || !strings.Contains(out, `"line":3`) {
		t.Error(code, out)
	}
	for _, command := range []string{"show", "grep"} {
		args := []string{"audit", command, file}
		if command == "grep" {
			args = []string{"audit", command, "begins", file}
		}
		if out, errs, code := program(t, args...); code != exitFailed || !strings.Contains(out, "run 1 begins") || !strings.Contains(errs, "broken at line 3") {
			t.Error(command, code, out, errs)
		}
	}
	if _, errs, code := program(t, "run", "--audit", file, "--audit-full", "never", "--", "true"); code != exitMisused || !strings.Contains(errs, "use stop or drop") {
		t.Error(code, errs)
	}
}

// A log whose host still writes it, or was killed, is not closed, and one whose host had no room for events is complete without them. The exit
// code tells these from one that has everything.
func TestVerifySaysWhatALogLacks(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, copied := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "copied.jsonl")
	script := fmt.Sprintf(`cp %[1]s.head %[2]s.head && cp %[1]s %[2]s && %[3]s=execbus exec "$0" audit verify %[1]s`, file, copied, roleVariable)
	out, errs, code := program(t, "run", "--audit", file, "--sandbox", "danger-full-access", "--no-tty", "--", "sh", "-c", script, self)
	if code != exitNotClosed || !strings.HasPrefix(out, "not closed: ") || !strings.Contains(out, "; a host writes it\n") {
		t.Error(code, out, errs)
	}
	if out, errs, code := program(t, "audit", "verify", copied); code != exitNotClosed || !strings.HasPrefix(out, "not closed: ") || strings.Contains(out, "writes it") {
		t.Error(code, out, errs)
	}
	full := filepath.Join(dir, "full.jsonl")
	log, err := audit.Open(audit.Options{File: full})
	if err != nil {
		t.Fatal(err)
	}
	log.Missed()
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := program(t, "audit", "verify", full); code != exitDropped || !strings.Contains(out, "dropped: 0 events, and others that nobody has counted") {
		t.Error(code, out, errs)
	}
}
