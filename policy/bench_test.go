package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
)

// BenchmarkPlan makes plans for scripts of 200 bytes with 500 rules, many of which begin with the same words.
func BenchmarkPlan(b *testing.B) {
	var source strings.Builder
	for i := range 500 {
		program := []string{"git", "npm", "make", "python3", fmt.Sprintf("tool%d", i)}[i%5]
		fmt.Fprintf(&source, "prefix_rule(pattern=[%q, \"run\", [\"a-%d\", \"b-%d\"]], decision=%q)\n", program, i, i,
			[]rules.Decision{rules.Allow, rules.Prompt, rules.Forbidden}[i%3])
	}
	set, err := rules.Parse("bench.rules", []byte(source.String()))
	if err != nil {
		b.Fatal(err)
	}
	snapshot := policy.Snapshot{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}, Rules: set,
		Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, Granted: func(string) bool { return false }}
	for _, script := range []struct {
		name, text string
		suggested  []string
	}{
		{name: "plain", text: "git status && npm run build-3 | tee log; make -j4 all && "},
		{name: "not plain", text: "for f in *.go; do gofmt -l \"$f\" > \"$TMP/$f\" || exit 1; done; "},
		{name: "suggested rule", text: "cargo build --release && ", suggested: []string{"cargo"}},
	} {
		text := script.text
		for len(text) < 160 {
			text += fmt.Sprintf("cargo test -p crate-%d; ", len(text))
		}
		text += "cargo run x"
		request := policy.Request{Argv: []string{"/bin/bash", "-lc", text}, Program: "/bin/bash", Dir: "/work",
			CommandPolicy: messages.CommandPolicy{PrefixRule: script.suggested}}
		b.Run(script.name, func(b *testing.B) {
			for b.Loop() {
				if plan := policy.MakePlan(request, snapshot); plan.Decision != policy.Ask {
					b.Fatalf("the plan is to %s", plan.Decision)
				}
			}
		})
	}
}
