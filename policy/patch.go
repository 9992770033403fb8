package policy

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// PatchName is the word by which rules know patches, whichever way they come: a rule that forbids or asks about commands that begin with
// it holds for patches, too. One that allows them does not, because the sandbox of a patch is not given up.
const PatchName = "apply_patch"

// Patch is what a patch does, once it is known to fit.
type Patch struct {
	// Files are the changes. Their paths, and those from which files are moved, are absolute and lead through no symbolic link.
	Files []messages.FileChange
	// Roots says where the directories of WritableRoots lead. One without an entry counts as it is written.
	Roots map[string]string
	// Kept are absolute paths that the sandbox keeps from commands although they lie in directories of WritableRoots, such as the repository
	// that a file names. The names that are protected in each are among them anyway.
	Kept []string
	// Protected are absolute paths that no command may change, wherever they lie.
	Protected []string
	// Diff is for a person's eyes.
	Diff string
}

// WritableRoots are the directories in which commands under the policies of a session may write.
func WritableRoots(s Snapshot) (roots []string) {
	if s.Sandbox.Type != messages.SandboxWorkspaceWrite {
		return nil
	}
	roots = append([]string{s.Dir}, s.Sandbox.WritableRoots...)
	if s.TempDir != "" && !s.Sandbox.ExcludeTmpdirEnvVar {
		roots = append(roots, s.TempDir)
	}
	if !s.Sandbox.ExcludeSlashTmp {
		roots = append(roots, "/tmp")
	}
	return roots
}

// protectedNames cannot be changed at the top of a writable root; a repository's own directory cannot be changed anywhere below it.
var protectedNames = []string{".git", ".agents", ".codex"}

// Guarded are the paths that the patch must not change once it may be applied: what is protected, but for the names under which lie files
// that were asked about.
func (p *Patch) Guarded(s Snapshot) []string {
	outside := p.Outside(s)
	return slices.DeleteFunc(p.protected(s), func(kept string) bool {
		return !slices.Contains(p.Protected, kept) && slices.ContainsFunc(outside, func(path string) bool { return inside(path, kept) })
	})
}

// protected are the paths in the writable roots that commands cannot change, with those of the host; none where nothing is confined.
func (p *Patch) protected(s Snapshot) (paths []string) {
	for _, root := range WritableRoots(s) {
		for _, name := range slices.Concat(protectedNames, s.Sandbox.ProtectedNames) {
			path := filepath.Join(p.leads(root), name)
			if !slices.ContainsFunc(s.Sandbox.WritableRoots, func(root string) bool { return p.leads(root) == path }) {
				paths = append(paths, path)
			}
		}
	}
	if s.Sandbox.Confined() {
		paths = append(append(paths, p.Kept...), p.Protected...)
	}
	return paths
}

func (p *Patch) leads(root string) string {
	if at := p.Roots[root]; at != "" {
		return at
	}
	return filepath.Clean(root)
}

// touched are the paths that a patch changes, sorted, each once.
func (p *Patch) touched() (paths []string) {
	for _, file := range p.Files {
		paths = append(paths, file.Path)
		if file.From != "" {
			paths = append(paths, file.From)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Outside are the paths that a patch changes although commands cannot write them, sorted; protected ones are among them. Where nothing is
// confined there are none.
func (p *Patch) Outside(s Snapshot) (paths []string) {
	if !s.Sandbox.Confined() {
		return nil
	}
	return slices.DeleteFunc(p.touched(), func(path string) bool { return p.writable(path, s) })
}

// writable reports whether the most specific root in which a path lies lets commands write it.
func (p *Patch) writable(path string, s Snapshot) bool { return p.free(path, filepath.Dir(path), s) }

// CanMakeIn reports whether commands can make files in a directory, but for protected names.
func (p *Patch) CanMakeIn(dir string, s Snapshot) bool {
	return !s.Sandbox.Confined() || p.free(dir, dir, s)
}

// free reports whether a directory lies in a root, and a path in it, or the directory itself, is not protected there.
func (p *Patch) free(path, dir string, s Snapshot) bool {
	best, found := "", false
	for _, root := range WritableRoots(s) {
		if at := p.leads(root); inside(dir, at) && len(at) >= len(best) {
			best, found = at, true
		}
	}
	if !found || slices.Contains(strings.Split(strings.TrimPrefix(path, best), "/"), ".git") {
		return false
	}
	return !slices.ContainsFunc(p.protected(s), func(kept string) bool {
		return inside(path, filepath.Clean(kept)) && !(len(best) >= len(kept) && inside(best, filepath.Clean(kept)))
	})
}

// denied is a path of the patch that must not be read; empty if there is none.
func (p *Patch) denied(s Snapshot) string {
	for _, path := range p.touched() {
		if s.Sandbox.Confined() && slices.ContainsFunc(s.Sandbox.DeniedReads, func(denied string) bool { return inside(path, filepath.Clean(denied)) }) {
			return path
		}
	}
	return ""
}

// kept is a path of the patch that the host protects; empty if there is none.
func (p *Patch) kept(s Snapshot) string {
	for _, path := range p.touched() {
		if s.Sandbox.Confined() && slices.ContainsFunc(p.Protected, func(kept string) bool { return inside(path, filepath.Clean(kept)) }) {
			return path
		}
	}
	return ""
}

// planPatch decides about a patch. Its writes are confined as the session's commands are, but that an approval adds the directories that
// the request's additional permissions name.
func planPatch(r Request, s Snapshot) Plan {
	patch, m := r.Patch, maker{request: r, approval: s.Approval, sandbox: s.Sandbox}
	plan := Plan{Decision: Run, Source: messages.DecidedByPolicy, FirstAttempt: Sandboxed, OnDenial: Return}
	reject := func(format string, values ...any) Plan {
		plan.Decision, plan.Reason = Reject, fmt.Sprintf("patch rejected: "+format, values...)
		return plan
	}
	if err := s.Approval.Check(); err != nil {
		return reject("%v", err)
	}
	if path := patch.denied(s); path != "" {
		return reject("%s must not be read; leave it out of the patch", messages.Visible(path))
	}
	if path := patch.kept(s); path != "" {
		return reject("%s holds settings that nothing in a sandbox may change; leave it out of the patch", messages.Visible(path))
	}
	var rule *rules.Match
	if matches := slices.DeleteFunc(slices.Clip(s.Rules.Match([]string{PatchName})), allows); len(matches) > 0 {
		strictest, _ := rules.Strictest(matches)
		rule, plan.Source, plan.Rule = &strictest, messages.DecidedByRule, ruleName(strictest)
		if verdictOf(strictest) == forbid {
			return reject("%s", reasonOr(strictest.Justification, "a rule of the policy forbids "+PatchName))
		}
	}
	outside := patch.Outside(s)
	where := "writing is blocked by the read-only sandbox"
	if s.Sandbox.Type == messages.SandboxWorkspaceWrite && len(outside) > 0 {
		where = "writing outside of the project: " + messages.Visible(outside[0])
		if more := len(outside) - 1; more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
	}
	mode := messages.ApprovalMode(s.Approval.String())
	granular := mode == messages.ApproveGranular
	switch {
	case rule == nil && len(outside) == 0 && mode != messages.ApproveUntrusted:
		return plan
	case rule != nil && (mode == messages.ApproveNever || granular && !s.Approval.Granular.Rules):
		return reject("a rule of the policy requires approval for %s, but the approval policy is %s and lets nobody be asked", PatchName, s.Approval)
	case len(outside) > 0 && (mode == messages.ApproveNever || granular && !s.Approval.Granular.SandboxApproval):
		return reject("%s; the approval policy is %s and lets nobody be asked about it", where, s.Approval)
	case rule != nil:
		plan.Reason = m.justified("it " + whyRule(rule))
	case len(outside) > 0:
		plan.Reason = m.justified(where)
	default:
		plan.Reason = m.justified("it changes files, and the approval policy is untrusted")
	}
	plan.Decision, plan.CacheKey = Ask, patch.key(r, s)
	if s.Granted != nil && s.Granted(plan.CacheKey) {
		plan.Decision, plan.Source = Run, messages.DecidedByCache
	}
	return plan
}

func reasonOr(justification, otherwise string) string {
	if justification == "" {
		return otherwise
	}
	return messages.Visible(justification)
}

// key is equal for patches that change the same files under the same sandbox, whatever they write there.
func (p *Patch) key(r Request, s Snapshot) string {
	m, sandbox := maker{request: r}, s.Sandbox
	sandbox.WritableRoots = nil
	text, err := json.Marshal(struct {
		Patch   any                    `json:"patch"`
		Dir     exact                  `json:"dir"`
		Sandbox messages.SandboxPolicy `json:"sandbox"`
		Roots   any                    `json:"roots,omitempty"`
	}{m.places(p.touched()), exact(tidy(s.Dir)), sandbox, texts(s.Sandbox.WritableRoots)})
	if err != nil {
		panic(err) // strings and booleans
	}
	return shortKey(text)
}
