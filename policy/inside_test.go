package policy

import (
	"strings"
	"testing"

	"github.com/execbus/execbus/policy/rules"
)

// around are scripts that run the command @, in places where a list of plain commands ends.
var around = []string{
	"set -e; @", "@ || exit 1", "(@)", "@ 2>&1", "A=b @", "if true; then @; fi", "@ &", "{ @; }", "! @", "time @", "@ > log",
	"for x in a b; do @; done", "while true; do @; done", "case a in a) @;; esac", "f() { @; }; f", "echo $(@)", "echo `@`",
	"cat <(@)", "x=$(@)", "@ $REMOTE", "@ \"$@\"", "echo a | @ | cat > b", "coproc @", "[[ a ]] && @", "cat <<E\n$(@)\nE",
	"sudo @", "env A=b @", "nohup @ &", "timeout 5 @ > log", "xargs @ < list", "find . -exec @ \\;", "sh -c '@'", "sudo bash -lc \"cd x; @\"",
	"eval '@'", "eval @", "trap '@' EXIT", "bash <<E\n@\nE", "env -S '@'", "command @", "exec @", "fish -c '@'", "/usr/bin/@", "./@",
	// What cannot be parsed here may well be run.
	"@\n)", "ls\n@ origin; ((1 2))", "[[ a ]] && { @ }", "for f (a b) @ $f", "sh -c '@; ((1 2))'",
}

func TestRulesThatStopLookEverywhere(t *testing.T) {
	for _, c := range []struct {
		decision rules.Decision
		want     string
	}{{rules.Forbidden, "rej"}, {rules.Prompt, "ask/return"}} {
		snapshot := under(onRequest, readOnly, testRules(testRule{c.decision, "git push", ""}, testRule{rules.Allow, "ls", ""}))
		for _, text := range around {
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

// TestRulesThatAllowStayStrict: they hold for what is known to be all that runs.
func TestRulesThatAllowStayStrict(t *testing.T) {
	snapshot := under(untrusted, readOnly, testRules(testRule{rules.Allow, "git push", ""}))
	for _, text := range around {
		text = strings.ReplaceAll(text, "@", "git push")
		if plan := MakePlan(shell(text), snapshot); plan.Decision == Run && text != "/usr/bin/git push" {
			t.Errorf("%q: %s", text, outcome(plan, true))
		}
	}
}
