package main

import (
	"io"
	"strings"
	"testing"
)

func TestEveryCommandExplainsItself(t *testing.T) {
	out, errors, code := program(t, "--help")
	if code != 0 || errors != "" {
		t.Fatal(out, errors, code)
	}
	for _, c := range commands {
		if !strings.Contains(out, c.name) || !strings.Contains(out, c.summary) {
			t.Errorf("the help does not name %q:\n%s", c.name, out)
		}
		help, errors, code := program(t, append(strings.Fields(c.name), "--help")...)
		if code != 0 || errors != "" || !strings.Contains(help, "execbus "+c.name) || !strings.Contains(help, "\nExample") || !strings.Contains(help, "\nExit codes") {
			t.Errorf("%s --help: exit code %d, %q, %s", c.name, code, errors, help)
		}
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	for line, same := range map[string]string{"help": "--help", "help run": "run --help", "help policy check": "policy check --help", "help help": "--help"} {
		want, _, _ := program(t, strings.Fields(same)...)
		if out, errors, code := program(t, strings.Fields(line)...); code != 0 || errors != "" || out != want {
			t.Errorf("%s: exit code %d, %s%s", line, code, errors, out)
		}
	}
	if _, errors, code := program(t, "help", "rnu"); code != exitMisused || !strings.Contains(errors, `there is no command "rnu"; did you mean run?`) {
		t.Errorf("exit code %d, %s", code, errors)
	}
}

func TestWrongWordsGetASuggestion(t *testing.T) {
	for _, test := range []struct{ line, says string }{
		{"polcy check", `there is no command "polcy"; did you mean policy?`},
		{"nonsense", "there is no command \"nonsense\"\n"},
		{"policy chek", `"policy chek" is no command; use policy check`},
		{"audit", `"audit" is no command; use audit verify, audit show, audit grep`},
		{"--vresion", "there is no flag --vresion; did you mean --version?"},
		{"policy check --jsn x", "there is no flag --jsn; did you mean --json?"},
		{"policy check --nothing-like-it x", "there is no flag --nothing-like-it\n"},
		{"version now", `"now"`},
	} {
		out, errors, code := program(t, strings.Fields(test.line)...)
		if code != exitMisused || out != "" || !strings.Contains(errors, test.says) || !strings.Contains(errors, "Usage:") {
			t.Errorf("%s: exit code %d, %q, %s", test.line, code, out, errors)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, line := range []string{"version", "--version"} {
		out, errors, code := program(t, line)
		if code != 0 || errors != "" || !strings.HasPrefix(out, "execbus ") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, %q", line, code, out, errors)
		}
	}
}

func TestDistances(t *testing.T) {
	for _, test := range []struct {
		a, b string
		n    int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"same", "same", 0}, {"sandbx", "sandbox", 1}, {"rlues", "rules", 2}, {"kitten", "sitting", 3}} {
		if n := edits(test.a, test.b); n != test.n {
			t.Errorf("%q to %q: %d", test.a, test.b, n)
		}
	}
	if run(nil, streams{strings.NewReader(""), io.Discard, io.Discard}) != exitMisused {
		t.Error("no command is no mistake")
	}
}
