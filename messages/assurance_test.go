package messages_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestAssurancesHaveAnOrder(t *testing.T) {
	order := []messages.Assurance{messages.AssuranceNone, messages.AssuranceConfined, messages.AssuranceIsolated}
	for i, a := range order {
		for j, b := range order {
			if a.AtLeast(b) != (i >= j) {
				t.Errorf("%s at least %s: %v", a, b, a.AtLeast(b))
			}
		}
	}
	if messages.Assurance("").AtLeast(messages.AssuranceConfined) || messages.Assurance("strong").AtLeast(messages.AssuranceConfined) {
		t.Error("what is no assurance is as strong as one")
	}
	if err := messages.Assurance("strong").Check(); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
}

func TestAnEnforcementIsOnePhrase(t *testing.T) {
	e := messages.Enforcement{Level: messages.AssuranceConfined, Mechanisms: []string{"landlock", "seccomp"},
		Missing: []messages.Missing{{What: "signals", Why: "needs ABI 6"}, {What: "names", Why: "no namespaces"}}}
	if got := e.String(); got != "confined by landlock, seccomp; missing: signals (needs ABI 6), names (no namespaces)" {
		t.Error(got)
	}
	if got := (messages.Enforcement{Level: messages.AssuranceNone}).String(); got != "none" {
		t.Error(got)
	}
}

func TestPathsOfAPolicyAreChecked(t *testing.T) {
	many := slices.Repeat([]string{"/x"}, messages.MaxPolicyPaths+1)
	for _, test := range []struct {
		policy messages.SandboxPolicy
		want   string
	}{
		{messages.SandboxPolicy{WritableRoots: []string{"work"}}, `"work" in writable_roots is not absolute`},
		{messages.SandboxPolicy{DeniedReads: []string{"~/.ssh"}}, `"~/.ssh" in denied_reads is not absolute`},
		{messages.SandboxPolicy{Sockets: []string{"@bus"}}, `"@bus" in sockets is not absolute`},
		{messages.SandboxPolicy{WritableRoots: []string{"/a\x00b"}}, "NUL"},
		{messages.SandboxPolicy{ProtectedNames: []string{"a/b"}}, `"a/b" in protected_names is not the name of a file`},
		{messages.SandboxPolicy{ProtectedNames: []string{".."}}, `".." in protected_names`},
		{messages.SandboxPolicy{ProtectedNames: []string{""}}, `"" in protected_names`},
		{messages.SandboxPolicy{DeniedReads: many}, "denied_reads has 17 entries"},
	} {
		if err := test.policy.Check(); !errors.Is(err, messages.ErrInvalidRequest) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test.policy, err)
		}
	}
	good := messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, WritableRoots: []string{"/a"}, DeniedReads: []string{"/b"}, Sockets: []string{"/c"},
		ProtectedNames: []string{".vscode"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

func TestAPolicyIsOnePhrase(t *testing.T) {
	for want, policy := range map[string]messages.SandboxPolicy{
		"read-only, no network":                        {WritableRoots: []string{"/data"}},
		"workspace-write, network":                     {Type: messages.SandboxWorkspaceWrite, NetworkAccess: true},
		"workspace-write, also /data /srv, no network": {Type: messages.SandboxWorkspaceWrite, WritableRoots: []string{"/data", "/srv"}},
		"danger-full-access":                           {Type: messages.SandboxDangerFullAccess, NetworkAccess: true},
	} {
		if got := policy.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestADecisionIsChecked(t *testing.T) {
	for _, good := range []messages.Decision{{Kind: messages.DecisionDenied}, {Kind: messages.DecisionApprovedForSession, Expires: 1}} {
		if err := good.Check(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for want, bad := range map[string]messages.Decision{
		"is not an answer": {},
		"it is negative":   {Kind: messages.DecisionApproved, Expires: -1},
	} {
		if err := bad.Check(); !errors.Is(err, messages.ErrInvalidRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", bad, err, want)
		}
	}
}
