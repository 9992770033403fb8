package messages

import (
	"reflect"
	"strings"
	"testing"
)

func TestPoliciesAreParsed(t *testing.T) {
	for text, want := range map[string]ApprovalPolicy{
		"never":    {Mode: ApproveNever},
		"granular": {Mode: ApproveGranular, Granular: GranularApproval{SandboxApproval: true, Rules: true}},
		`{"granular":{"sandbox_approval":false,"rules":true}}`: {Mode: ApproveGranular, Granular: GranularApproval{Rules: true}},
	} {
		if got, err := ParseApprovalPolicy(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]SandboxPolicy{
		"read-only": {Type: SandboxReadOnly},
		`{"type":"workspace-write","writable_roots":["/a"],"network_access":true}`: {Type: SandboxWorkspaceWrite, WritableRoots: []string{"/a"}, NetworkAccess: true},
	} {
		if got, err := ParseSandboxPolicy(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestWrongPoliciesAreNotParsed(t *testing.T) {
	for text, says := range map[string]string{"": "empty", "sometimes": `"sometimes"`, "{": "unexpected end", `{"granular":7}`: "granular"} {
		if _, err := ParseApprovalPolicy(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, says := range map[string]string{"": "empty", "cage": `"cage"`, "{}": "no type", `{"type":"read-only","x":1}`: `"x"`,
		`{"type":"read-only"} {}`: "behind", `{"type":"workspace-write","writable_roots":["a"]}`: "not absolute"} {
		if _, err := ParseSandboxPolicy(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
