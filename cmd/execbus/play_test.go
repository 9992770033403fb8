package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cast writes a recording with some events.
func cast(t *testing.T, events string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.cast")
	if err := os.WriteFile(name, []byte(`{"version":3,"term":{"cols":80,"rows":24}}`+"\n"+events), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestARunIsRecordedAndPlayed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "run.cast")
	code, out, errors := runs(t, "typed\n", "--sandbox", "danger-full-access", "--record", name, "--record-input=raw", "--", "sh", "-c", "read x; printf 'got %s\\n' $x; exit 3")
	if code != 3 || out != "got typed\n" {
		t.Fatal(code, out, errors)
	}
	text, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(text), `"i", "typed\n"]`) || !strings.Contains(string(text), `"x", "3"]`) {
		t.Errorf("%s, %v", text, err)
	}
	if out, errors, code := program(t, "play", "--speed", "0", name); code != 0 || errors != "" || out != "got typed\r\n" {
		t.Error(code, out, errors)
	}
	if out, errors, code := program(t, "play", "--svg", "end", name); code != 0 || errors != "" || !strings.HasPrefix(out, "<svg ") || !strings.Contains(out, "typed") {
		t.Error(code, out, errors)
	}
	if out, _, code := program(t, "play", "--svg", "0", name); code != 0 || strings.Contains(out, "typed") {
		t.Error(code, out)
	}
	old := filepath.Join(t.TempDir(), "old.cast")
	for _, want := range []int{0, exitFailed} { // what exists is not overwritten
		if out, errors, code := program(t, "play", "--v2", "--out", old, name); code != want || out != "" || (errors != "") != (want != 0) {
			t.Error(code, out, errors)
		}
	}
	if text, err := os.ReadFile(old); err != nil || !strings.HasPrefix(string(text), `{"version":2,"width":80,"height":24`) {
		t.Errorf("%s, %v", text, err)
	}
	if code, _, errors := runs(t, "", "--sandbox", "danger-full-access", "--record", name, "--", "true"); code != exitRefused || !strings.Contains(errors, "exists already") {
		t.Error(code, errors)
	}
	dir := t.TempDir()
	if code, _, errors := runs(t, "", "--sandbox", "danger-full-access", "--record", dir, "--", "true"); code != 0 {
		t.Error(code, errors)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.cast")); len(files) != 1 {
		t.Errorf("%q", files)
	}
	for _, player := range []struct{ program, file string }{{"asciinema", old}} {
		if _, err := exec.LookPath(player.program); err != nil {
			t.Logf("skipped: %v", err)
			continue
		}
		if out, err := exec.Command(player.program, "cat", player.file).CombinedOutput(); err != nil || !strings.Contains(string(out), "got typed") {
			t.Errorf("asciinema: %v, %s", err, out)
		}
	}
}

func TestPlaySaysWhatIsWrong(t *testing.T) {
	other := filepath.Join(t.TempDir(), "no.cast")
	if err := os.WriteFile(other, []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := cast(t, `[0.1, "o", "hi"]`+"\n")
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"play":                           {exitMisused, "name one recording"},
		"play --speed -1 " + good:        {exitMisused, "--speed"},
		"play --idle-limit 0 " + good:    {exitMisused, "--idle-limit"},
		"play --svg soon " + good:        {exitMisused, `"soon" is no time`},
		"play --svg 1 --v2 " + good:      {exitMisused, "together"},
		"play --out x " + good:           {exitMisused, "--out needs"},
		"play /does/not/exist":           {exitFailed, "no such file"},
		"play " + other:                  {exitFailed, "no.cast: line 1 is no header"},
		"play " + cast(t, "x\n"):         {exitFailed, "line 2 is no event"},
		"play " + cast(t, `[0, "o", "h`): {0, "ends within a line"},
	} {
		if _, errors, code := program(t, strings.Fields(line)...); code != want.code || !strings.Contains(errors, want.says) {
			t.Errorf("%s: exit code %d, %s", line, code, errors)
		}
	}
}

func TestPlayingOnATerminalEndsWithCtrlC(t *testing.T) {
	name := cast(t, `[0, "o", "begun\u001b[?25l\u001b]0;title\u0007\u001b[6n\u001b[?1049h"]`+"\n"+`[3600, "o", "never"]`+"\n")
	s := sit(t, `trap : INT; "$SELF" play '`+name+`'`)
	shown := s.expect("begun")
	s.resize(10, 20)
	s.send("keys\x03")
	shown += s.expect(`ended with \d+\.`)
	if !strings.HasSuffix(shown, "ended with 130.") || strings.Contains(shown, "title") || strings.Contains(shown, "\x1b[6n") || strings.Contains(shown, "keys") ||
		!strings.Contains(shown, "\x1b[?1049l") || !strings.Contains(shown, "\x1b[?25h") {
		t.Errorf("%q", shown)
	}
	s.restored()
}
