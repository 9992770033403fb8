package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
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
}

// A recording or a file of output for which the disk has no room is said once, and costs the command nothing. A bound on the size of files stands
// for a full disk.
func TestARunSaysWhatItCouldNotRecord(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv(roleVariable, "execbus")
	t.Setenv("XDG_STATE_HOME", dir)
	name := filepath.Join(dir, "run.cast")
	c := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -f 64; exec "$0" run --sandbox danger-full-access --no-tty --keep-output --record "$1" -- seq 100000`, self, name)
	var errors strings.Builder
	c.Stderr = &errors
	out, err := c.Output()
	if err != nil || !strings.HasSuffix(string(out), "\n99999\n100000\n") {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if said := errors.String(); strings.Count(said, "a recording is not complete: ") != 1 || strings.Count(said, "the output is not kept: ") != 1 || strings.Count(said, "\n") != 2 {
		t.Errorf("it says %s", said)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "execbus", "kept", "*")); err != nil || len(left) != 0 {
		t.Errorf("left are %q, %v", left, err)
	}
	if out, errors, code := program(t, "play", "--speed", "0", name); code != 0 || errors != "" || !strings.HasPrefix(out, "1\r\n2\r\n") {
		t.Error(code, len(out), errors)
	}
}

// What a server for MCP records can be played.
func TestMCPRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "casts")
	r := launch(t, "mcp", "--no-login-shell", "--sandbox", "danger-full-access", "--no-keep-output", "--record", dir)
	r.send(hello)
	r.answer("1")
	for id, script := range []string{"echo one", "printf '\\033[1mtwo\\033[m\\n'; exit 3"} {
		r.exec(2+id, script)
	}
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(); code != 0 || r.errors.Len() > 0 {
		t.Errorf("exit code %d, %s", code, r.errors.String())
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.cast")) // their names begin with the time
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for i, want := range []struct{ output, exit string }{{"one\r\n", `"x", "0"]`}, {"\x1b[1mtwo\x1b[m\r\n", `"x", "3"]`}} {
		info, err := os.Stat(files[i])
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		text, err := os.ReadFile(files[i])
		if err != nil || !strings.HasSuffix(string(text), want.exit+"\n") || !strings.Contains(string(text), `"m", "call `) {
			t.Errorf("%s, %v", text, err)
		}
		if out, errors, code := program(t, "play", "--speed", "0", files[i]); code != 0 || errors != "" || out != want.output {
			t.Errorf("exit code %d, %q, %s", code, out, errors)
		}
	}
}

// asciinemas are the installed players by the first number of their version. A missing one is said.
func asciinemas(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		program := filepath.Join(dir, "asciinema")
		if version, err := asciinema(t, program, "--version"); err == nil {
			number, _, _ := strings.Cut(strings.TrimPrefix(version, "asciinema "), ".")
			found[number] = program
		}
	}
	for _, number := range []string{"2", "3"} {
		if found[number] == "" {
			t.Logf("skipped: there is no asciinema %s in PATH", number)
		}
	}
	return found
}

// asciinema runs a player without files of the user. It has a terminal for its keys, which version 3 does not play without, and writes to a pipe.
func asciinema(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	c.Stdin, c.SysProcAttr = slave, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	out, err := c.Output()
	return string(out), err
}

// asciinema 2, which is Debian's, plays what --v2 writes, and asciinema 3 what was recorded, with all kinds of events.
func TestRecordingsArePlayedByAsciinema(t *testing.T) {
	players, dir := asciinemas(t), t.TempDir()
	name, old := filepath.Join(dir, "new.cast"), filepath.Join(dir, "old.cast")
	const shown = "caf\u00e9 \x1b[1m<bold>\x1b[0m\r\nNew size: 30 100\r\n"
	s := sit(t, `free --record '`+name+`' --record-input -- sh -c 'stty -echo; printf "caf\303\251 \033[1m<bold>\033[0m\n"; read x; until [ "$(stty size)" = "30 100" ]; do sleep 0.01; done; echo New size: $(stty size); exit 3'`)
	s.expect("bold")
	s.resize(30, 100)
	s.send("typed\n")
	s.expect(`New size: 30 100\s+ended with 3\.`)
	if out, errors, code := program(t, "play", "--v2", "--out", old, name); code != 0 || out != "" || errors != "" {
		t.Fatal(code, out, errors)
	}
	text, err := os.ReadFile(name)
	for _, event := range []string{`"o", "`, `"m", "`, `"r", "100x30"]`, `"x", "3"]`} {
		if err != nil || !strings.Contains(string(text), event) {
			t.Errorf("there is no event %s in %s, %v", event, text, err)
		}
	}
	for number, files := range map[string][]string{"2": {old}, "3": {old, name}} {
		for _, file := range files {
			if players[number] == "" {
				continue
			}
			if out, err := asciinema(t, players[number], "play", "-s", "1000", file); err != nil || out != shown {
				t.Errorf("asciinema %s plays %q of %s: %v", number, out, filepath.Base(file), err)
			}
		}
	}
}

// An hour without output is a moment when it is played fast, or when pauses are bounded by a flag or by the recording; else this never ends.
func TestPausesAreShortened(t *testing.T) {
	long := `[3600, "o", "late"]` + "\n"
	bounded := filepath.Join(t.TempDir(), "bounded.cast")
	if err := os.WriteFile(bounded, []byte(`{"version":3,"term":{"cols":80,"rows":24},"idle_time_limit":0.001}`+"\n"+long), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--speed", "1e9", cast(t, long)}, {"--speed", "0", cast(t, long)}, {"--idle-limit", "0.001", cast(t, long)}, {bounded}} {
		if out, errors, code := program(t, append([]string{"play"}, args...)...); code != 0 || errors != "" || out != "late" {
			t.Errorf("%q: exit code %d, %q, %s", args, code, out, errors)
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
