package actors

import (
	"path/filepath"
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

// within makes a path absolute that may be relative to the session's directory.
func (s *settings) within(dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(s.dir, dir)
}

// demands reports whether a command needs something enforced.
func (s *settings) demands(o *order) bool {
	return s.sandbox.Confined() || s.limits.Tighter(o.Limits) != messages.Limits{}
}
