package process

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
)

// TestPlansKnowWhereProgramsAre: a name that leads nowhere now could lead to a planted program a moment later.
func TestPlansKnowWhereProgramsAre(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "planted"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	rules, err := (*rules.Set)(nil).With([]string{"planted"})
	if err != nil {
		t.Fatal(err)
	}
	if rules, err = rules.With([]string{"not-there-yet"}); err != nil {
		t.Fatal(err)
	}
	s := shared.Settings{Dir: dir, Env: []string{"PATH=/usr/bin:/bin:" + dir}, Rules: rules,
		Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}
	for name, want := range map[string]struct {
		program  string
		decision policy.Decision
	}{
		"planted":       {filepath.Join(dir, "planted"), policy.Ask},
		"not-there-yet": {policy.NotFound, policy.Ask},
	} {
		got := decide(context.Background(), &s, &shared.Command{ExecCommand: messages.ExecCommand{Argv: []string{name}}}, ptyio.Local(), policy.MakePlan, nil)
		if got.err != nil || got.request.Program != want.program || got.plan.Decision != want.decision {
			t.Errorf("%s: found at %q, %+v, %v", name, got.request.Program, got.plan, got.err)
		}
	}
}

// A plan that may ask looks for the program: the answer has to be remembered for the file, even if there are no rules yet.
func TestPlansThatMayAskLook(t *testing.T) {
	for name, c := range map[string]struct {
		mode        messages.ApprovalMode
		permissions messages.SandboxPermissions
		argv        []string
		want        bool
	}{
		"never":                      {messages.ApproveNever, "", []string{"tool"}, false},
		"the default":                {"", "", []string{"tool"}, false},
		"on-request":                 {messages.ApproveOnRequest, "", []string{"tool"}, false},
		"on-request, escalated":      {messages.ApproveOnRequest, messages.PermissionsRequireEscalated, []string{"tool"}, true},
		"on-request, danger":         {messages.ApproveOnRequest, "", []string{"rm", "-rf", "x"}, true},
		"on-request, a shell":        {messages.ApproveOnRequest, "", []string{"bash", "-c", "ls"}, true},
		"untrusted":                  {messages.ApproveUntrusted, "", []string{"tool"}, true},
		"on-failure, after a denial": {messages.ApproveOnFailure, "", []string{"tool"}, true},
		"granular, after a denial":   {messages.ApproveGranular, "", []string{"tool"}, true},
	} {
		s := shared.Settings{Approval: messages.ApprovalPolicy{Mode: c.mode}}
		o := shared.Command{ExecCommand: messages.ExecCommand{Argv: c.argv,
			CommandPolicy: messages.CommandPolicy{SandboxPermissions: c.permissions}}}
		if got := looks(&s, &o); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
