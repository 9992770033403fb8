package main

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// beginExecutions is the host with a sandbox, and with a rule that asks about touch, which the file script executes.
func beginExecutions(t *testing.T, script string) (i interview, pid int) {
	t.Helper()
	dir := t.TempDir()
	i = interview{open(t, 40, 100), dir, filepath.Join(dir, "my.rules")}
	for file, text := range map[string]string{i.rules: `prefix_rule(["touch"], decision="prompt")`, filepath.Join(dir, "script"): script} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i.begin(nil, "--sandbox", "workspace-write", "--rules", i.rules)
	i.expect("demo> ")
	i.send(":cd " + dir + "\r")
	i.expect("demo> ")
	i.send("sh ./script\r")
	shown := i.expect(`Executed by: pid (\d+)\D|exited, code|demo: exec`) // no part of a pid
	if shown[1] == "" {
		t.Skipf("skipped: no question comes here: %s", i.shown())
	}
	if pid, _ = strconv.Atoi(shown[1]); pid <= 1 {
		t.Fatalf("pid %q", shown[1])
	}
	return i, pid
}

func TestAnExecutionIsAskedAboutInTheTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, says string
		again     bool // the second execution is asked about
		made      bool
	}{{"y", "(?s:.*?)code 0", true, true}, {"a", "(?s:.*?)code 0", false, true}, {"n", "(?s:.*?)code 126", false, false}} {
		i, _ := beginExecutions(t, "PATH=/usr/bin; touch made; touch made; echo code $?")
		i.has("made", false)
		if i.answer(c.key); c.again {
			i.answer(c.key)
		}
		i.expect(c.says + prompts)
		i.has("made", c.made)
		i.quit()
		i.restored()
	}
}

func TestAnExecutionWhoseCallerIsGoneIsNoQuestionAnyMore(t *testing.T) {
	t.Parallel()
	i, pid := beginExecutions(t, "/usr/bin/touch made & wait $!; echo code $?; exit 0")
	i.expect(asks)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	i.expect("(?s:.*?)code 137" + ended)
	i.has("made", false)
	i.quit()
	i.restored()
}
