package shared

import (
	"path/filepath"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
)

// Settings are the base for a session's commands. A supervisor replaces them and never changes them, because processes share
// those they began with.
type Settings struct {
	Dir          string
	Environment  messages.EnvironmentPolicy
	Base         []string
	noLogin      bool
	LongestPoll  time.Duration
	AnswerEarly  bool
	RecordRaw    bool
	outputTokens int
	Approval     messages.ApprovalPolicy
	Sandbox      messages.SandboxPolicy
	Least        messages.Assurance
	Limits       messages.Limits
	Enclosing    *enclosing // nil where the policy confines nothing
	Network      Network    // nil where the policy names no hosts
	ByName       []int      // the ports of hosts to which commands connect by name
	Rules        *rules.Set
	Unreadable   messages.RulesUnreadable
	Executions   messages.ExecutionMode
	Keyboard     messages.KeyboardPolicy

	// The environment of commands that name no policy of their own, or why there is none; see built.
	Env      []string
	EnvError error
}

// Built fills in the environment, once for all the commands that start with these settings.
func (s Settings) Built() *Settings {
	s.Env, s.EnvError = s.BuildEnvironment(s.Environment, ptyio.PagersOff())
	return &s
}

// BuildEnvironment makes an environment. If the policy is exact, the argument exact has the only overrides; it is nil
// for a request's own policy, because nothing is known about the program that it runs.
func (s *Settings) BuildEnvironment(policy messages.EnvironmentPolicy, exact map[string]string) ([]string, error) {
	overrides := ptyio.Overrides()
	if policy.Exact {
		policy.Inherit, overrides = messages.InheritNone, exact
	}
	return ptyio.BuildEnvironment(s.Base, policy, overrides)
}

// Budget bounds the output in a result's text: see messages.Result.
type Budget struct {
	Tokens int
	Bytes  *int
}

// Budget is the budget of a call that asked for at most so many tokens and bytes; nil means that it did not say.
func (s *Settings) Budget(tokens, bytes *int) Budget {
	b := Budget{Tokens: s.outputTokens, Bytes: bytes}
	switch {
	case tokens != nil:
		b.Tokens = min(b.Tokens, *tokens)
	case bytes == nil:
		b.Tokens = min(b.Tokens, messages.DefaultOutputTokens)
	}
	return b
}

// Within makes a path absolute that may be relative to the session's directory.
func (s *Settings) Within(dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(s.Dir, dir)
}

// Demands reports whether a command needs something enforced.
func (s *Settings) Demands(o *Command) bool {
	return s.Sandbox.Confined() || s.Limits.Tighter(o.Limits) != messages.Limits{}
}
