package policy_test

import (
	"fmt"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
)

func ExampleMakePlan() {
	rules, err := rules.Parse("default.rules", []byte(`
prefix_rule(pattern=["git", "push"], decision="prompt", justification="it talks to a server")
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	snapshot := policy.Snapshot{Approval: messages.ApprovalPolicy{Mode: messages.ApproveOnRequest}, Rules: rules}
	for _, script := range []string{"git status", "git status && git push", "rm -rf build"} {
		request := policy.Request{Argv: []string{"/bin/bash", "-lc", script}, Program: "/bin/bash", Dir: "/work"}
		plan := policy.MakePlan(request, snapshot)
		fmt.Printf("%s %s %q\n", plan.Decision, plan.FirstAttempt, plan.Reason)
	}
	// Output:
	// run sandboxed ""
	// ask sandboxed "it requires approval: it talks to a server"
	// ask sandboxed "it removes files by force, `rm -f`"
}
