package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
)

// The limit of plans holds for these sizes.
const (
	planRules = 500
	planBytes = 200
)

// plannedScripts show where the time of a plan goes: taking the script apart and matching each segment, looking for danger
// in a script that cannot be taken apart, and trying a rule that the caller suggests.
var plannedScripts = []struct {
	name, begins string
	suggested    []string
}{
	{name: "plain", begins: "git status && npm run build-3 | tee log; make -j4 all && "},
	{name: "not plain", begins: "for f in *.go; do gofmt -l \"$f\" > \"$TMP/$f\" || exit 1; done; "},
	{name: "suggested rule", begins: "cargo build --release && ", suggested: []string{"cargo"}},
}

func planCase() benchCase {
	c := benchCase{name: "plan", run: measurePlans,
		about: fmt.Sprintf("the plan for a script of %d bytes, with %d rules", planBytes, planRules)}
	for _, script := range plannedScripts {
		c.metrics = append(c.metrics, metric{name: script.name, unit: microseconds, judge: valueMost, limit: 100})
	}
	return c
}

func measurePlans(ctx context.Context, h *harness) ([]value, error) {
	rules, err := rulesForPlans()
	if err != nil {
		return nil, err
	}
	snapshot := policy.Snapshot{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}, Rules: rules,
		Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, Granted: func(string) bool { return false }}
	count := h.some(5_000, 500)
	var values []value
	for _, script := range plannedScripts {
		text := script.begins
		for len(text) < planBytes-40 {
			text += fmt.Sprintf("cargo test -p crate-%d; ", len(text))
		}
		text += "cargo run " + strings.Repeat("x", planBytes-len(text)-len("cargo run "))
		request := policy.Request{Argv: []string{"/bin/bash", "-lc", text}, Program: "/bin/bash", Dir: "/work",
			CommandPolicy: messages.CommandPolicy{PrefixRule: script.suggested}}
		var samples []float64
		for range h.pairs {
			took := make([]float64, 0, count)
			for range count {
				began := time.Now()
				plan := policy.MakePlan(request, snapshot)
				took = append(took, micros(time.Since(began)))
				if plan.Decision != policy.Ask {
					return nil, fmt.Errorf("%s: the plan is to %s", script.name, plan.Decision)
				}
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			samples = append(samples, median(took))
		}
		h.say("  %s: %.1f µs", script.name, median(samples))
		values = append(values, single(samples))
	}
	return values, nil
}

// rulesForPlans makes rules. Many of them begin with the same words as the scripts.
func rulesForPlans() (*rules.Set, error) {
	var source strings.Builder
	for i := range planRules {
		program := []string{"git", "npm", "make", "python3", fmt.Sprintf("tool%d", i)}[i%5]
		fmt.Fprintf(&source, "prefix_rule(pattern=[%q, \"run\", [\"a-%d\", \"b-%d\"]], decision=%q)\n", program, i, i,
			[]rules.Decision{rules.Allow, rules.Prompt, rules.Forbidden}[i%3])
	}
	return rules.Parse("bench.rules", []byte(source.String()))
}
