package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
)

// roleVariable makes this test binary run as execbus, in a process of its own.
const roleVariable = "EXECBUS_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "execbus" {
		_ = os.Unsetenv(roleVariable) // or execbus would name it
		main()
	}
	for _, variable := range os.Environ() { // the settings of the user who runs the tests
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "EXECBUS_") && name != roleVariable {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector's runtime sleeps a second at the end of each of our processes
	os.Exit(m.Run())
}

const sample = `prefix_rule(pattern=["git", ["status", "log"]])
prefix_rule(pattern=["git"], decision="prompt", justification="ask <first>")
prefix_rule(pattern=["rm"], decision="forbidden", justification="too\u202esharp")
prefix_rule(pattern=["make"])
prefix_rule(pattern=["bash"], decision="prompt")
host_executable(name="make", paths=["/opt/make"])
`

// program runs execbus in a directory with rule files.
func program(t *testing.T, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.rules": sample, "b.rules": "prefix_rule(['ls'])", "bad.rules": "prefix_rule(['ls'])\nprefix_rule([])",
		"dir/x.rules": "prefix_rule(['cat'])", "dir/y.rules": "prefix_rule(['tac'])", "dir/z.txt": "prefix_rule([])",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, arguments...)
	c.Dir = dir
	c.Env = append(c.Environ(), roleVariable+"=execbus")
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	if err := c.Run(); err != nil && !isExit(err) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(out.String(), dir+"/", ""), strings.ReplaceAll(errors.String(), dir+"/", ""), c.ProcessState.ExitCode()
}

func isExit(err error) bool {
	_, exit := errors.AsType[*exec.ExitError](err)
	return exit
}

func TestPolicyCheckForPeople(t *testing.T) {
	for _, test := range []struct {
		command []string
		code    int
		want    []string // in this order
		not     string
	}{
		{[]string{"make", "all"}, 0, []string{"allow\n", "make all", "allow by a.rules:4", "begin with make"}, "taken for"},
		{[]string{"git", "status"}, 3, []string{"prompt\n", "git status", "prompt by a.rules:2", "begin with git", "ask <first>", "do not decide: 1"}, ""},
		{[]string{"rm", "x"}, 4, []string{"forbidden\n", "rm x", "forbidden by a.rules:3", `too\u202esharp`}, "\u202e"},
		{[]string{"ls"}, 5, []string{"no rule decides\n", "ls\n", "no rule matches"}, " by "},
		{[]string{"/opt/make", "-r"}, 0, []string{"allow\n", "/opt/make -r", "/opt/make is taken for make"}, ""},
		{[]string{"/bin/make"}, 5, []string{"no rule decides\n"}, " by "},
		{[]string{"./rm", "x"}, 4, []string{"forbidden\n", "./rm is taken for rm"}, ""},

		// scripts
		{[]string{"bash", "-lc", "make && make install"}, 0, []string{"allow\n", "  make\n", "allow by", "  make install\n", "allow by"}, "bash"},
		{[]string{"bash", "-lc", "make && ls"}, 5, []string{"no rule decides\n", "  make\n", "allow by a.rules:4", "  ls\n", "no rule matches"}, ""},
		{[]string{"bash", "-c", "make; ls | rm -r x"}, 4, []string{"forbidden\n", "  rm -r x\n", "forbidden by a.rules:3"}, "bash"},
		{[]string{"/bin/sh", "-c", "git push; ls"}, 3, []string{"prompt\n", "no rule matches"}, ""},
		{[]string{"bash", "-lc", "make $(ls)"}, 3, []string{"prompt\n", "bash -lc", "begin with bash"}, "allow"},
		{[]string{"bash", "-lc", "make $(rm x)"}, 4, []string{"forbidden\n", "bash -lc", "begin with rm"}, "allow"},
		{[]string{"zsh", "-x", "-c", "if make; then git push & fi"}, 3, []string{"prompt\n", "begin with git"}, "allow"},
		{[]string{"./bash", "-lc", "make"}, 3, []string{"prompt\n", "./bash is taken for bash"}, "allow"},
		{[]string{"bash", "-lc", "echo 'rm x' | sh"}, 4, []string{"forbidden\n", "  echo 'rm x'\n", "no rule matches", "  sh\n", "begin with rm"}, "cannot be applied"},
		{[]string{"zsh", "-c", `eval "$x"`}, 3, []string{"prompt\n", "cannot be applied to all of it: a shell runs a text", "no rule matches"}, ""},
		{[]string{"bash", "-lc", `make | sh`}, 3, []string{"prompt\n", "cannot be applied to all of it", "allow by a.rules:4"}, ""},
		{[]string{"git", "-C", "x", "log"}, 3, []string{"prompt\n", "begin with git\n"}, "allow"},
		{[]string{"zsh", "-x", "-c", "make"}, 5, []string{"no rule decides\n"}, "allow"},
	} {
		stdout, stderr, code := program(t, append([]string{"policy", "check", "--rules", "a.rules", "--"}, test.command...)...)
		if code != test.code || stderr != "" || test.not != "" && strings.Contains(stdout, test.not) {
			t.Errorf("%q: %d, want %d, and no %q\n%s%s", test.command, code, test.code, test.not, stdout, stderr)
		}
		rest := stdout
		for _, want := range test.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%q: no %q in its place\n%s", test.command, want, stdout)
			}
			rest = after
		}
	}
}

// TestPolicyCheckAgreesWithPlans compares the answers with the plans of a session.
func TestPolicyCheckAgreesWithPlans(t *testing.T) {
	set, err := rules.Parse("a.rules", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	snapshot := policy.Snapshot{Approval: messages.ApprovalPolicy{Mode: messages.ApproveOnRequest}, Rules: set}
	for _, argv := range [][]string{
		{"make"}, {"git", "log"}, {"rm"}, {"ls"}, {"/opt/make"}, {"/bin/make"}, {"./make"}, {"bin/rm"}, {"bash", "-lc", "make && make x"},
		{"bash", "-lc", "make && ls"}, {"bash", "-lc", "ls; rm x"}, {"bash", "-lc", "make <<E\nx\nE"}, {"bash", "-lc", "make > x"},
		{"bash", "-lc", "make $(rm x)"}, {"bash"}, {"sh", "-c", "x=1 make"}, {"sh", "-c", ""}, {"zsh", "-c", "git push || make"},
		{"bash", "-c", "echo rm x | sh"}, {"bash", "-c", "make | sh"}, {"bash", "-c", "make; eval $x"}, {"make", "$x"}, {"bash", "-c", "sh <<E\nrm x\nE"}, {"eval", "make"},
	} {
		plan := policy.MakePlan(policy.Request{Argv: argv, Dir: "/"}, snapshot)
		var want rules.Decision
		switch {
		case plan.Decision == policy.Reject:
			want = rules.Forbidden
		case plan.Decision == policy.Ask:
			want = rules.Prompt
		case plan.FirstAttempt == policy.Unsandboxed:
			want = rules.Allow
		}
		if got := judge(set, argv).decision; got != want {
			t.Errorf("%q: %q, and the plan is %+v", argv, got, plan)
		}
	}
}

func TestPolicyCheckForScripts(t *testing.T) {
	for _, test := range []struct{ arguments, want string }{
		{"--json -r a.rules -- git log -1", `{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git","log"],"decision":"allow"}},` +
			`{"prefixRuleMatch":{"matchedPrefix":["git"],"decision":"prompt","justification":"ask <first>"}}],"decision":"prompt"}`},
		{"--json -r a.rules -- eval ( )", `{"matchedRules":[],"decision":"prompt","unread":"the text that a shell runs is not understood"}`},
		{"--json -r a.rules ls", `{"matchedRules":[]}`},
		{"--json --resolve-host-executables --rules a.rules --rules b.rules ls -l",
			`{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["ls"],"decision":"allow"}}],"decision":"allow"}`},
		{"--json -r a.rules /opt/make x", `{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["make"],"decision":"allow",` +
			`"resolvedProgram":"/opt/make"}}],"decision":"allow"}`},
		{"--json -r dir tac x", `{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["tac"],"decision":"allow"}}],"decision":"allow"}`},
		{"--json -r a.rules -- bash -lc make;ls", `{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["make"],"decision":"allow"}}]}`},
	} {
		stdout, stderr, code := program(t, append([]string{"policy", "check"}, strings.Fields(test.arguments)...)...)
		if stdout != test.want+"\n" || stderr != "" || code != 0 {
			t.Errorf("%s: %d\n%swant\n%s\n%s", test.arguments, code, stdout, test.want, stderr)
		}
	}
	plain, _, _ := program(t, "policy", "check", "--json", "-r", "a.rules", "git", "log")
	pretty, _, code := program(t, "policy", "check", "-r", "a.rules", "--pretty", "git", "log")
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(pretty)); err != nil || compact.String() != strings.TrimSpace(plain) || code != 0 ||
		strings.Count(pretty, "\n") < 5 {
		t.Errorf("--pretty: %v, %d\n%s", err, code, pretty)
	}
}

// The rules come from the settings that run and mcp have, and by default from the user's own directory.
func TestPolicyCheckHasTheRulesOfTheSettings(t *testing.T) {
	check := func(want string, arguments ...string) {
		t.Helper()
		var out, errors bytes.Buffer
		code := run(append([]string{"policy", "check"}, append(arguments, "--", "ls")...), streams{strings.NewReader(""), &out, &errors})
		if got, _, _ := strings.Cut(out.String(), "\n"); got != want || errors.Len() > 0 || code != exitCodes[rules.Decision(strings.TrimPrefix(want, "no rule decides"))] {
			t.Errorf("%d, %s%s, want %s", code, out.String(), errors.String(), want)
		}
	}
	file := home(t, "")
	check("no rule decides") // the user has no rules
	dir := filepath.Join(filepath.Dir(file), "rules")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, decision := range map[string]string{filepath.Join(dir, "own.rules"): "forbidden", dir + "/../in-file": "prompt", dir + "/../in-variable": "allow"} {
		if err := os.WriteFile(path, []byte("prefix_rule(['ls'], decision='"+decision+"')"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check("forbidden")
	if err := os.WriteFile(file, []byte(`rules = ["in-file"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	check("prompt")
	t.Setenv("EXECBUS_RULES", dir+"/../in-variable")
	check("allow")
	check("forbidden", "--rules", dir)
	check("forbidden", "-r", dir+"/../in-variable", "-r", dir)
}

func TestWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		arguments string
		code      int
		want      string // on stderr
	}{
		{"", 2, "Usage:"},
		{"frobnicate", 2, `there is no command "frobnicate"`},
		{"policy", 2, "policy check"},
		{"policy frobnicate", 2, "policy check"},
		{"policy check", 2, "no command to check"},
		{"policy check -r a.rules", 2, "no command to check"},
		{"policy check -r a.rules --", 2, "no command to check"},
		{"policy check --colour -r a.rules ls", 2, "colour"},
		{"policy check -r missing.rules ls", 2, "--rules: stat missing.rules: no such file"},
		{"policy check --json -r b.rules -r bad.rules ls", 1, "bad.rules:2:12: invalid pattern element"},
	} {
		stdout, stderr, code := program(t, strings.Fields(test.arguments)...)
		if code != test.code || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: %d, want %d and %q\n%s%s", test.arguments, code, test.code, test.want, stdout, stderr)
		}
	}
	for _, arguments := range []string{"--help", "policy check --help", "policy check -h"} {
		stdout, stderr, code := program(t, strings.Fields(arguments)...)
		if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "Usage:") {
			t.Errorf("%s: %d\n%s%s", arguments, code, stdout, stderr)
		}
	}
	stdout, _, _ := program(t, "policy", "check", "--help")
	for _, line := range strings.Split(stdout, "\n") {
		if len(line) > 130 {
			t.Errorf("the help has a line of %d columns", len(line))
		}
	}
}
