package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestChoices(t *testing.T) {
	kinds := func(choices []messages.Choice) (all []messages.DecisionKind) {
		for _, c := range choices {
			all = append(all, c.Kind)
		}
		return all
	}
	request := shell("cargo build\u202e")
	request.Dir = "/wo\nrk"
	for name, c := range map[string]struct {
		change    func(*Request)
		plan      Plan
		session   []string // parts of the text about an approval for the session
		not, rule string
	}{
		"confined": {func(*Request) {}, Plan{FirstAttempt: Sandboxed, OnDenial: Return},
			[]string{"this command", `/wo\nrk`, "with its input closed", "permissions that the session's commands have", "until the session ends"}, "without",
			""},
		"with open input": {func(r *Request) { r.OpenInput = true }, Plan{FirstAttempt: Sandboxed, OnDenial: Return},
			[]string{"this command", "whatever is written to it"}, "closed", ""},
		"about the first of two attempts": {func(*Request) {}, Plan{Decision: Ask, FirstAttempt: Sandboxed, OnDenial: AskTo, Amendment: []string{"cargo",
			"build\u202e"}},
			[]string{"permissions that the session's commands have"}, "without", `cargo $'build\u202e'`},
		"after a denial": {func(*Request) {}, Plan{FirstAttempt: Unsandboxed, OnDenial: AskTo},
			[]string{"without a sandbox whenever its sandbox stops it"}, "permissions", ""},
		"without a sandbox": {func(r *Request) { r.Environment = &messages.EnvironmentPolicy{Exact: true} },
			Plan{FirstAttempt: Unsandboxed, OnDenial: Return}, []string{"without a sandbox", "same environment"}, "permissions", ""},
		"wider": {func(r *Request) {
			r.SandboxPermissions = messages.PermissionsWithAdditional
			r.AdditionalPermissions = &messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true},
				FileSystem: &messages.FileSystemPermissions{Read: []string{"/r"}, Write: []string{"w\u200b"}}}
		}, Plan{FirstAttempt: Sandboxed, OnDenial: Return}, []string{"the network, reading /r (wherever that leads), writing w\\u200b (wherever that leads)"}, "without", ""},
		"an absolute program": {func(*Request) {}, Plan{FirstAttempt: Sandboxed, OnDenial: Return, Amendment: []string{"/usr/bin/x"}},
			nil, "", "/usr/bin/x, whatever follows them, runs without a question, and without a sandbox except where rules are enforced at executions, in every session"},
		"a relative program": {func(*Request) {}, Plan{FirstAttempt: Sandboxed, OnDenial: Return, Amendment: []string{"./x"}},
			nil, "", "./x, whatever follows them, runs without a question, and without a sandbox except where rules are enforced at executions, in every directory that has such"},
	} {
		r := request
		c.change(&r)
		choices := Choices(r, c.plan, "/home/me/rules/default.rules")
		want := []messages.DecisionKind{messages.DecisionApproved, messages.DecisionApprovedForSession, messages.DecisionApprovedWithRule,
			messages.DecisionDenied, messages.DecisionAborted}
		if c.rule == "" {
			want = slices.Delete(want, 2, 3)
		} else if text := choices[2].Remembers; !strings.Contains(text, "begins with the words "+c.rule) ||
			!strings.Contains(text, "every session") || !strings.Contains(text, "/home/me/rules/default.rules") {
			t.Errorf("%s: the rule's choice says %q", name, text)
		}
		if got := kinds(choices); !slices.Equal(got, want) {
			t.Errorf("%s: the choices are %q", name, got)
		}
		for _, fact := range c.session {
			if !strings.Contains(choices[1].Remembers, fact) {
				t.Errorf("%s: the session's choice %q does not say %q", name, choices[1].Remembers, fact)
			}
		}
		if c.not != "" && strings.Contains(choices[1].Remembers, c.not) {
			t.Errorf("%s: the session's choice says %q", name, choices[1].Remembers)
		}
		for _, i := range []int{0, len(choices) - 1, len(choices) - 2} {
			if choices[i].Remembers != "" {
				t.Errorf("%s: %s remembers %q", name, choices[i].Kind, choices[i].Remembers)
			}
		}
	}
}
