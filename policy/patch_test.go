package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// patchTable is the decision table for patches, as the package doc has it.
const patchTable = `
policy                        |inside, WW |outside, WW |.git, WW |RO  |DFA, EXT
never                         |run        |rej         |rej      |rej |run
on-request                    |run        |ask         |ask      |ask |run
untrusted                     |ask        |ask         |ask      |ask |ask
on-failure                    |run        |ask         |ask      |ask |run
granular                      |run        |ask         |ask      |ask |run
granular, no sandbox_approval |run        |rej         |rej      |rej |run
granular, no rules            |run        |ask         |ask      |ask |run
`

// patching is a request to change files.
func patching(paths ...string) Request {
	p := &Patch{Protected: []string{"/work/sub/own.rules"}}
	for _, path := range paths {
		p.Files = append(p.Files, messages.FileChange{Path: path, Kind: messages.ChangeUpdate})
	}
	return Request{Argv: append([]string{PatchName}, paths...), Dir: "/work", Patch: p}
}

func TestThePatchTable(t *testing.T) {
	writes := messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}
	cases := map[string][]struct {
		path    string
		sandbox messages.SandboxPolicy
	}{
		"inside, WW":  {{"/work/a", writes}, {"/tmp/a", writes}, {"/work/sub/own", writes}},
		"outside, WW": {{"/etc/a", writes}, {"/worker/a", writes}, {"/work", writes}},
		".git, WW": {{"/work/.git/hooks/a", writes}, {"/work/.codex", writes}, {"/work/sub/.git/config", writes},
			{"/work/.idea/x", messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ProtectedNames: []string{".idea"}}},
			{"/tmp/a", messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true}}},
		"RO":       {{"/work/a", messages.SandboxPolicy{}}, {"/tmp/a", messages.SandboxPolicy{Type: messages.SandboxReadOnly}}},
		"DFA, EXT": {{"/etc/a", messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}}, {"/work/.git/a", messages.SandboxPolicy{Type: messages.SandboxExternal}}},
	}
	all := rows(patchTable)
	header := all[0]
	for _, row := range all[1:] {
		for i, want := range row[1:] {
			for _, c := range cases[header[i+1]] {
				plan := MakePlan(patching(c.path), Snapshot{Approval: approvals[row[0]], Sandbox: c.sandbox, Dir: "/work"})
				if got := map[Decision]string{Run: "run", Ask: "ask", Reject: "rej"}[plan.Decision]; got != want {
					t.Errorf("%s, %s, %s: %s, want %s (%s)", row[0], header[i+1], c.path, got, want, plan.Reason)
				}
				if (plan.Decision == Run) != (plan.Reason == "") || plan.OnDenial != Return || plan.FirstAttempt != Sandboxed || (plan.CacheKey != "") != (plan.Decision == Ask) {
					t.Errorf("%s, %s: %+v", row[0], c.path, plan)
				}
			}
		}
	}
}

func TestRulesAboutPatches(t *testing.T) {
	for name, c := range map[string]struct {
		rule     testRule
		approval string
		path     string
		want     Decision
		says     string
	}{
		"forbidden":           {testRule{"forbidden", PatchName, "use the editor"}, "on-request", "/work/a", Reject, "use the editor"},
		"forbidden, no words": {testRule{"forbidden", PatchName, ""}, "on-request", "/work/a", Reject, "a rule of the policy forbids"},
		"asked":               {testRule{"prompt", PatchName, ""}, "on-request", "/work/a", Ask, "requires approval by policy"},
		"asked, never":        {testRule{"prompt", PatchName, ""}, "never", "/work/a", Reject, "never"},
		"asked, granular":     {testRule{"prompt", PatchName, ""}, "granular, no rules", "/work/a", Reject, "granular"},
		"allowed outside":     {testRule{"allow", PatchName, ""}, "on-request", "/etc/a", Ask, "outside of the project: /etc/a"},
		"others":              {testRule{"forbidden", "git", ""}, "on-request", "/work/a", Run, ""},
	} {
		plan := MakePlan(patching(c.path), Snapshot{Approval: approvals[c.approval], Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, Dir: "/work", Rules: testRules(c.rule)})
		if plan.Decision != c.want || !strings.Contains(plan.Reason, c.says) || (plan.Source == messages.DecidedByRule) != (c.rule.prefix == PatchName && c.rule.decision != "allow") {
			t.Errorf("%s: %+v", name, plan)
		}
	}
}

func TestADeniedOrProtectedPathIsNeverAskedAbout(t *testing.T) {
	s := Snapshot{Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, DeniedReads: []string{"/work/secret"}}, Dir: "/work"}
	for _, path := range []string{"/work/secret", "/work/secret/key", "/work/sub/own.rules"} {
		if plan := MakePlan(patching("/work/a", path), s); plan.Decision != Reject || !strings.Contains(plan.Reason, path) {
			t.Errorf("%+v", plan)
		}
	}
	moved := patching("/work/a")
	moved.Patch.Files[0].From = "/work/secret/key"
	if plan := MakePlan(moved, s); plan.Decision != Reject {
		t.Errorf("%+v", plan)
	}
}

// A root may be reached through a link, and a patch's paths have none.
func TestRootsCountWhereTheyLead(t *testing.T) {
	s := Snapshot{Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, WritableRoots: []string{"/link", "/work/.git"}}, Dir: "/work"}
	r := patching("/real/a", "/work/.git/a")
	if got := r.Patch.Outside(s); !slices.Equal(got, []string{"/real/a"}) {
		t.Error(got)
	}
	r.Patch.Roots = map[string]string{"/link": "/real"}
	if got := r.Patch.Outside(s); len(got) != 0 {
		t.Error(got)
	}
	if got := r.Patch.Guarded(s); slices.Contains(got, "/work/.git") || !slices.Contains(got, "/real/.git") || !slices.Contains(got, "/work/sub/own.rules") {
		t.Error(got)
	}
	hook := patching("/real/.git/hooks/a", "/work/sub/own.rules")
	hook.Patch.Roots = r.Patch.Roots
	if got := hook.Patch.Guarded(s); slices.Contains(got, "/real/.git") || !slices.Contains(got, "/real/.codex") || !slices.Contains(got, "/work/sub/own.rules") {
		t.Error(got)
	}
}

func TestAnApprovalOfAPatchIsForItsFiles(t *testing.T) {
	s := Snapshot{Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, Dir: "/work"}
	asked := patching("/etc/a", "/etc/b")
	asked.Located = map[string]messages.Location{"/etc/a": {Path: "/etc/a", Device: 1, Inode: 2, Below: "a"}}
	key := MakePlan(asked, s).CacheKey
	s.Granted = func(k string) bool { return k == key }
	again := patching("/etc/b", "/etc/a")
	again.Located = asked.Located
	again.Patch.Diff, again.Justification = "another", "other"
	if plan := MakePlan(again, s); plan.Decision != Run || plan.Source != messages.DecidedByCache {
		t.Errorf("%+v", plan)
	}
	elsewhere := patching("/etc/a", "/etc/b")
	elsewhere.Located = map[string]messages.Location{"/etc/a": {Path: "/etc/a", Device: 1, Inode: 3, Below: "a"}}
	wider := s
	wider.Sandbox.NetworkAccess = true
	for name, plan := range map[string]Plan{"more": MakePlan(patching("/etc/a", "/etc/b", "/etc/c"), s), "fewer": MakePlan(patching("/etc/a"), s),
		"another directory": MakePlan(elsewhere, s), "another sandbox": MakePlan(asked, wider)} {
		if plan.Decision != Ask {
			t.Errorf("%s: %+v", name, plan)
		}
	}
	choices := Choices(asked, MakePlan(asked, s), "")
	if len(choices) != 4 || !strings.Contains(choices[1].Remembers, "/etc/a, /etc/b, until") || !strings.Contains(choices[0].Sentence, "Apply") {
		t.Errorf("%+v", choices)
	}
}
