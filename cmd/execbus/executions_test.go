package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// sees skips a test where the executions of commands cannot be seen, and writes rules.
func sees(t *testing.T) (rules string) {
	t.Helper()
	if _, wrong, code := program(t, "run", "--sandbox", "read-only", "--assurance", "confined", "--executions", "report", "--", "true"); code != 0 {
		t.Skipf("skipped: %s", wrong)
	}
	rules = t.TempDir() + "/it.rules"
	text := `prefix_rule(["id"], decision="forbidden", justification="who cares")
prefix_rule(["uname"], decision="prompt")
`
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return rules
}

// hides is a file with a script: the command does not say what it executes.
func hides(t *testing.T, script string) string {
	t.Helper()
	file := t.TempDir() + "/script"
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRunNamesRefusedExecutions(t *testing.T) {
	rules := sees(t)
	out, wrong, code := program(t, "run", "--no-tty", "--assurance", "confined", "--rules", rules, "--", "sh", hides(t, `env id 2>/dev/null || echo "code $?"; env uname; exit 9`))
	if code != 9 || !strings.Contains(out, "code 126") ||
		!strings.Contains(wrong, "id was refused: who cares; a rule of the policy forbids `id`") || strings.Contains(wrong, "without a sandbox") {
		t.Errorf("%d: %q, %q", code, out, wrong)
	}
	if !strings.Contains(wrong, "uname was refused: it needs approval, and nobody is there to ask") {
		t.Errorf("%q", wrong)
	}
	if _, wrong, code = program(t, "run", "--executions", "all", "--", "true"); code != exitMisused || !strings.Contains(wrong, `there is no mode "all"; use off, report or enforce`) {
		t.Errorf("%d: %q", code, wrong)
	}
}

func TestRunAsksAboutExecutions(t *testing.T) {
	rules := sees(t)
	for answer, want := range map[string]string{"y": "Linux.*ended with 0\\.", "n": "rejected by user.*ended with 126\\.", "x": "ended with [0-9]+\\."} {
		s := sit(t, `trap : INT; run --assurance confined --rules `+rules+` -- sh `+hides(t, "env uname"))
		asked := s.expect(`(?s)Let a running command execute this program\?.*> $`)
		for _, fact := range []string{"/uname\r\n", "Command: sh /", "Executed by: pid ", "Reason: it requires approval by policy", "  y  Let it run this once.", "  n  Refuse it to this command"} {
			if !strings.Contains(asked, fact) {
				t.Errorf("%q is not in %q", fact, asked)
			}
		}
		s.answer(answer)
		s.expect(`(?s)` + want)
		s.restored()
	}
}

func TestRunWithdrawsAQuestionWhenItsCallerIsGone(t *testing.T) {
	rules := sees(t)
	s := sit(t, `run --assurance confined --rules `+rules+` -- sh `+hides(t, "env uname & wait $!; echo code $?"))
	asked := s.expect(`(?s)Executed by: pid [0-9]+.*> $`)
	_, after, _ := strings.Cut(asked, "Executed by: pid ")
	pid, _ := strconv.Atoi(strings.Trim(strings.Fields(after)[0], ","))
	if pid <= 1 {
		t.Fatalf("%q", asked)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.expect(`(?s)code 137.*ended with 0\.`)
	s.restored()
}

func TestPolicyCheckListsExecutions(t *testing.T) {
	rules := sees(t)
	command := []string{"--", "sh", "-c", `env id; env id; env uname -a; env true`}
	check := func(more ...string) (string, string, int) {
		return program(t, append(append([]string{"policy", "check", "--rules", rules, "--assurance", "confined", "--executions"}, more...), command...)...)
	}
	out, said, code := check()
	if code != 4 || !strings.Contains(said, "uid=") { // it ran
		t.Errorf("%d: %s", code, said)
	}
	for _, line := range []string{"forbidden\n", "/id (2 times)\n    forbidden by " + rules + ":1: commands that begin with id (2 times)\n    who cares\n",
		"    prompt by " + rules + ":2: commands that begin with uname\n", "uname -a\n", "executions: 8\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in %s", line, out)
		}
	}
	out, _, code = check("--json")
	var list struct {
		Programs []struct {
			Program string
			Count   int
			Rules   []struct{ Decision, Place string }
		}
		Decision   string
		Executions int
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || list.Decision != "forbidden" || list.Executions != 8 || len(list.Programs) != 4 {
		t.Errorf("%v, %d: %s", err, code, out)
	}
}
