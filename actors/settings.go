package actors

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
)

// settings are the base for a session's commands. A supervisor replaces them and never changes them, because processes share
// those they began with.
type settings struct {
	dir          string
	environment  messages.EnvironmentPolicy
	base         []string
	noLogin      bool
	longestPoll  time.Duration
	outputTokens int
	approval     messages.ApprovalPolicy
	sandbox      messages.SandboxPolicy
	least        messages.Assurance
	limits       messages.Limits
	enclosing    *enclosing // nil where the policy confines nothing
	rules        *rules.Set
	unreadable   messages.RulesUnreadable

	// The environment of commands that name no policy of their own, or why there is none; see built.
	env      []string
	envError error
}

// built fills in the environment, once for all the commands that start with these settings.
func (s settings) built() *settings {
	s.env, s.envError = s.buildEnvironment(s.environment, ptyio.PagersOff())
	return &s
}

// buildEnvironment makes an environment. If the policy is exact, the argument exact has the only overrides; it is nil
// for a request's own policy, because nothing is known about the program that it runs.
func (s *settings) buildEnvironment(policy messages.EnvironmentPolicy, exact map[string]string) ([]string, error) {
	overrides := ptyio.Overrides()
	if policy.Exact {
		policy.Inherit, overrides = messages.InheritNone, exact
	}
	return ptyio.BuildEnvironment(s.base, policy, overrides)
}

// budget bounds the output in a result's text: see messages.Result.
type budget struct {
	tokens int
	bytes  *int
}

// budget is the budget of a call that asked for at most so many tokens and bytes; nil means that it did not say.
func (s *settings) budget(tokens, bytes *int) budget {
	b := budget{tokens: s.outputTokens, bytes: bytes}
	switch {
	case tokens != nil:
		b.tokens = min(b.tokens, *tokens)
	case bytes == nil:
		b.tokens = min(b.tokens, messages.DefaultOutputTokens)
	}
	return b
}

// ResolveDir asks a supervisor to make a directory's path absolute; it may be relative to the session's directory. It
// is answered with the path, as a string. The directory need not exist.
type ResolveDir struct{ Dir string }

// within makes a path absolute that may be relative to the session's directory.
func (s *settings) within(dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(s.dir, dir)
}

// update replaces the settings of later commands.
func (v *supervisor) update(m messages.UpdateEnvironment) {
	next := *v.settings
	if m.Dir != nil {
		next.dir = v.settings.within(*m.Dir)
		if strings.ContainsRune(next.dir, 0) {
			v.ctx.Respond(badField("dir", "it contains a NUL byte; remove it", ""))
			return
		}
	}
	if m.Environment != nil {
		next.environment = *m.Environment
	}
	if m.Approval != nil {
		next.approval = *m.Approval
	}
	if m.Sandbox != nil {
		next.sandbox = m.Sandbox.Clone()
	}
	if m.LeastAssurance != nil {
		next.least = *m.LeastAssurance
	}
	if m.Limits != nil {
		next.limits = *m.Limits
	}
	if err := cmp.Or(next.approval.Check(), next.sandbox.Check(), next.least.Check(), next.limits.Check()); err != nil {
		v.ctx.Respond(err)
		return
	}
	built := next.built()
	if m.Environment != nil && built.envError != nil { // every later command would fail
		v.ctx.Respond(built.envError)
		return
	}
	if m.Sandbox != nil || m.LeastAssurance != nil {
		v.settings.enclosing.over()
		v.enclose(built)
	}
	v.settings = built
	v.ctx.Respond(Done{})
}

// demands reports whether a command needs something enforced.
func (s *settings) demands(o *order) bool {
	return s.sandbox.Confined() || s.limits.Tighter(o.Limits) != messages.Limits{}
}
