package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/policy/rules"
)

// plainAround are scripts that run nothing but the command @.
var plainAround = []string{"@", "set -e; @", "set -euo pipefail\n@", "@ || exit 1", "@ || true", "@ 2>&1", "@ >/dev/null", "@ 2>/dev/null",
	"@ >/dev/null 2>&1 </dev/null", "@ && test -f x", "[ -d a ] && @", "true; @; exit 0"}

// around are scripts that run it in places where a list of plain commands ends.
var around = []string{
	"(@)", "@ 2>&1 | cat > b", "A=b @", "if true; then @; fi", "@ &", "{ @; }", "! @", "time @", "@ > log",
	"for x in a b; do @; done", "while true; do @; done", "case a in a) @;; esac", "f() { @; }; f", "echo $(@)", "echo `@`",
	"cat <(@)", "x=$(@)", "@ $REMOTE", "@ \"$@\"", "echo a | @ | cat > b", "coproc @", "[[ a ]] && @", "cat <<E\n$(@)\nE",
	"sudo @", "env A=b @", "nohup @ &", "timeout 5 @ > log", "xargs @ < list", "find . -exec @ \\;", "sh -c '@'", "sudo bash -lc \"cd x; @\"",
	"eval '@'", "eval @", "trap '@' EXIT", "bash <<E\n@\nE", "env -S '@'", "command @", "exec @", "fish -c '@'", "/usr/bin/@", "./@",
	// A shell may run scripts that cannot be parsed here.
	"@\n)", "ls\n@ origin; ((1 2))", "[[ a ]] && { @ }", "for f (a b) @ $f", "sh -c '@; ((1 2))'",
}

func TestRulesThatStopLookEverywhere(t *testing.T) {
	for _, c := range []struct {
		decision rules.Decision
		want     string
	}{{rules.Forbidden, "rej"}, {rules.Prompt, "ask/return"}} {
		snapshot := under(onRequest, readOnly, testRules(testRule{c.decision, "git push", ""}, testRule{rules.Allow, "ls", ""}))
		for _, text := range slices.Concat(around, plainAround) {
			request := shell(strings.ReplaceAll(text, "@", "git push"))
			if plan := MakePlan(request, snapshot); outcome(plan, true) != c.want {
				t.Errorf("%s: %q: %s, want %s", c.decision, request.Argv[2], outcome(plan, true), c.want)
			} else if !strings.Contains(plan.Reason, "git push") {
				t.Errorf("%q: the reason does not say which rule: %s", request.Argv[2], plan.Reason)
			}
			if request = words("sh", "-x", "-c", request.Argv[2]); outcome(MakePlan(request, snapshot), true) != c.want {
				t.Errorf("%s: %q: not seen", c.decision, request.Argv)
			}
		}
		for _, text := range []string{"git status; set -e", "(git pull)", "echo 'git push' > x", "git $verb", "# git push\n(ls)",
			"cat <<E > x\ngit push\nE"} {
			if plan := MakePlan(shell(text), snapshot); outcome(plan, true) != "run/return" {
				t.Errorf("%s: %q: %s", c.decision, text, outcome(plan, true))
			}
		}
	}
}

// TestRulesThatAllowStayStrict: they hold only if all commands that run are known.
func TestRulesThatAllowStayStrict(t *testing.T) {
	snapshot := under(untrusted, readOnly, testRules(testRule{rules.Allow, "git push", ""}))
	for _, text := range around {
		text = strings.ReplaceAll(text, "@", "git push")
		if plan := MakePlan(shell(text), snapshot); plan.Decision == Run && text != "/usr/bin/git push" {
			t.Errorf("%q: %s", text, outcome(plan, true))
		}
	}
}

// TestLessIsAskedAbout: commands that only steer the shell, and redirections that discard output, change no verdict.
func TestLessIsAskedAbout(t *testing.T) {
	set := testRules(testRule{rules.Allow, "git push", ""})
	for _, text := range plainAround {
		for command, want := range map[string]string{"git push": "run!", "git status": "run/ask", "wc größe.txt": "run/ask", "cargo build": "ask/ask"} {
			request := shell(strings.ReplaceAll(text, "@", command))
			plan := MakePlan(request, under(untrusted, readOnly, set))
			if got := outcome(plan, true); got != want {
				t.Errorf("%q: %s, want %s", request.Argv[2], got, want)
			}
			if words := strings.Fields(command); want == "ask/ask" && !slices.Equal(plan.Amendment, words) {
				t.Errorf("%q: offers %q, not %q", request.Argv[2], plan.Amendment, words)
			}
			request.PrefixRule = strings.Fields(command)[:1]
			if plan := MakePlan(request, under(untrusted, readOnly, set)); command == "cargo build" && !slices.Equal(plan.Amendment, request.PrefixRule) {
				t.Errorf("%q: offers %q, not what the caller prefers", request.Argv[2], plan.Amendment)
			}
			request.CommandPolicy = escalated
			if got := outcome(MakePlan(request, under(onRequest, readOnly, set)), true); (got == "run!") != (command == "git push") {
				t.Errorf("%q, escalated: %s", request.Argv[2], got)
			}
		}
	}
	for text, want := range map[string]string{"set -e; exit 1": "run/ask", "true || exit": "run/ask", "exit 0; rm -rf x": "ask/ask"} {
		if got := outcome(MakePlan(shell(text), under(untrusted, readOnly, set)), true); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	// As an argv these are programs like any other.
	for _, argv := range [][]string{{"exit", "1"}, {"set", "-e"}, {"test", "-f", "x"}} {
		if got := outcome(MakePlan(words(argv...), under(untrusted, readOnly, set)), true); got != "ask/ask" {
			t.Errorf("%q: %s", argv, got)
		}
	}
	steered := testRules(testRule{rules.Prompt, "exit", ""}, testRule{rules.Forbidden, "set", ""}, testRule{rules.Allow, "ls", ""})
	for text, want := range map[string]string{"ls; exit 1": "ask/ask", "set -e; ls": "rej", "ls; true": "run!"} {
		if got := outcome(MakePlan(shell(text), under(untrusted, readOnly, steered)), true); got != want {
			t.Errorf("a rule about a steering command, %q: %s, want %s", text, got, want)
		}
	}
	request := shell("set -e; true")
	request.CommandPolicy = escalated
	if got := outcome(MakePlan(request, under(onRequest, readOnly, set)), true); got != "ask!" {
		t.Errorf("a script that does nothing, escalated: %s", got)
	}
}
