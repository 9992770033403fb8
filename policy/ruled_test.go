package policy

import (
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// A plan names the rule that has decided, with its place, and none where policies or the facts about the command have.
func TestAPlanNamesItsRule(t *testing.T) {
	set := testRules(testRule{rules.Allow, "ls", ""}, testRule{rules.Allow, "cat", ""}, testRule{rules.Prompt, "git push", ""},
		testRule{rules.Forbidden, "npm", "use pnpm"}, testRule{rules.Forbidden, PatchName, ""})
	for _, c := range []struct {
		request  Request
		approval messages.ApprovalPolicy
		decision Decision
		want     string
	}{
		{words("ls", "-l"), onRequest, Run, "ls (test.rules:1)"},
		{shell("cat x | ls"), onRequest, Run, "cat (test.rules:2)"},
		{shell("ls; unknown"), onRequest, Run, ""},
		{shell("ls; git push origin"), onRequest, Ask, "git push (test.rules:3)"},
		{words("git", "push"), never, Reject, "git push (test.rules:3)"},
		{shell("unknown; npm i"), onRequest, Reject, "npm (test.rules:4)"},
		{words("rm", "-f", "x"), never, Reject, ""},
		{patching("/work/a"), onRequest, Reject, "apply_patch (test.rules:5)"},
	} {
		if plan := MakePlan(c.request, under(c.approval, workspace, set)); plan.Decision != c.decision || plan.Rule != c.want {
			t.Errorf("%q: %s by the rule %q, want %s by %q", c.request.Argv, plan.Decision, plan.Rule, c.decision, c.want)
		}
	}
}
