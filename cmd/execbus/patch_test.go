package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/execbus/execbus/internal/own"
	"github.com/execbus/execbus/messages"
)

// patches calls "execbus patch" in a directory.
func patches(t *testing.T, dir, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(append([]string{"patch", "--assurance", "confined", "--dir", dir}, args...), streams{strings.NewReader(input), &out, &err})
	return code, out.String(), err.String()
}

func TestPatchAppliesWhatItReads(t *testing.T) {
	confinedHere(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	text := "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n"
	if code, out, err := patches(t, dir, text, "--check"); code != 0 || !strings.Contains(out, "can be applied") {
		t.Errorf("%d, %q, %q", code, out, err)
	}
	if _, err := os.Lstat(dir + "/a"); err == nil {
		t.Error("a check has written")
	}
	if code, out, err := patches(t, dir, text); code != 0 || out != "Success. Updated the following files:\nA a\n" || err != "" {
		t.Errorf("%d, %q, %q", code, out, err)
	}
	code, out, _ := patches(t, dir, "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch\n", "--json")
	var result messages.PatchResult
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || len(result.Files) != 1 || result.Files[0].State != messages.StateChanged {
		t.Errorf("%d, %q, %v", code, out, err)
	}
	if got, err := os.ReadFile(dir + "/a"); err != nil || string(got) != "y\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// A path in a patch can have what moves the cursor of a terminal. A program that reads the answer gets the path.
func TestAPathInAPatchDoesNothingToATerminal(t *testing.T) {
	confinedHere(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, name := t.TempDir(), "a\x1b[2Jb"
	add := "*** Begin Patch\n*** Add File: " + name + "\n+x\n*** End Patch"
	for what, do := range map[string]func(streams) int{
		"patch": func(std streams) int { return run([]string{"patch", "--assurance", "confined", "--dir", dir}, std) },
		"check": func(std streams) int {
			return run([]string{"patch", "--assurance", "confined", "--dir", dir, "--check"}, std)
		},
		"run": func(std streams) int {
			return run([]string{"run", "--assurance", "confined", "--cd", dir, "--", "apply_patch", add}, std)
		},
		"error": func(std streams) int { return failed(std, errors.New("A "+name)) - exitFailed },
	} {
		var out bytes.Buffer
		if code := do(streams{strings.NewReader(add), &out, &out}); code != 0 || !strings.Contains(out.String(), "A "+name+"\n") {
			t.Errorf("%s: %d, %q", what, code, out.String())
		}
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer slave.Close()
		code := do(streams{strings.NewReader(add), slave, slave})
		if _, err := slave.WriteString("END"); err != nil {
			t.Fatal(err)
		}
		shown := ""
		for buffer := make([]byte, 4096); !strings.HasSuffix(shown, "END"); {
			n, err := master.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			shown += string(buffer[:n])
		}
		if code != 0 || strings.Contains(shown, "\x1b") || !strings.Contains(shown, `A a\e[2Jb`+"\r\n") {
			t.Errorf("%s: %d, %q", what, code, shown)
		}
	}
}

func TestPatchRefusesAsOthersDo(t *testing.T) {
	confinedHere(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	for name, c := range map[string]struct {
		input string
		args  []string
		code  int
		says  string
	}{
		"empty":        {"", nil, 2, "the input is empty"},
		"an argument":  {"x", []string{"x"}, 2, "standard input"},
		"no patch":     {"x", nil, 1, "first line"},
		"no match":     {"*** Begin Patch\n*** Update File: missing\n@@\n-x\n+y\n*** End Patch\n", nil, 1, "missing"},
		"read-only":    {"*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n", []string{"--sandbox", "read-only", "--approval", "never"}, 1, "read-only"},
		"a wrong flag": {"x", []string{"--chek"}, 2, "did you mean --check?"},
	} {
		if code, out, err := patches(t, dir, c.input, c.args...); code != c.code || out != "" || !strings.Contains(err, c.says) {
			t.Errorf("%s: %d, %q, %q", name, code, out, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestPatchRecoverSaysThatThereIsNothing(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if out, errors, code := program(t, "patch", "recover"); code != 0 || !strings.Contains(out, "nothing to settle") {
		t.Errorf("%d, %q, %q", code, out, errors)
	}
	if err := os.WriteFile(own.Patches()+"/x.json", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errors, code := program(t, "patch", "recover"); code != 1 || out != "" || !strings.Contains(errors, "could not be settled") {
		t.Errorf("%d, %q, %q", code, out, errors)
	}
	if err := os.Chmod(own.Patches(), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, errors, code := program(t, "patch", "recover"); code != 1 || out != "" || !strings.Contains(errors, own.Patches()) {
		t.Errorf("%d, %q, %q", code, out, errors)
	}
	if _, errors, code := program(t, "patch", "recover", "now"); code != exitMisused || !strings.Contains(errors, `"now"`) {
		t.Errorf("%d, %q", code, errors)
	}
}

func TestRunAppliesAPatch(t *testing.T) {
	confinedHere(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	patch := "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
	if code, out, err := runs(t, "", "--assurance", "confined", "--cd", dir, "--", "apply_patch", patch); code != 0 || out != "Success. Updated the following files:\nA a\n" {
		t.Errorf("%d, %q, %q", code, out, err)
	}
	if code, out, err := runs(t, "", "--assurance", "confined", "--cd", dir, "--json", "--", "apply_patch", patch); code != 0 || !strings.Contains(out, `"kind":"patch_applied"`) {
		t.Errorf("%d, %q, %q", code, out, err)
	}
	if code, _, err := runs(t, "", "--assurance", "confined", "--cd", dir, "--", "apply_patch", "nonsense"); code != exitRefused || !strings.Contains(err, "first line") {
		t.Errorf("%d, %q", code, err)
	}
}
