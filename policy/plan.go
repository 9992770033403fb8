package policy

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// Request is one command as it is about to run, or one patch. It is not changed by the plan.
type Request struct {
	Argv []string
	// Argv0 is the name that the program gets as its own; empty means Argv[0].
	Argv0 string
	// Program is the absolute path at which Argv[0] was found, symbolic links not followed, or NotFound. If it is
	// empty, there was no lookup, and a name is taken for the program that usually has it; the caller that runs the
	// command should look it up. A shell or a known-safe program is taken for one only if it lies where the system
	// keeps its own.
	Program string
	// Found says where the names in a script lead, as Names lists them: absolute paths, symbolic links not followed, or
	// NotFound. Nil means that there was no lookup. A name is trusted only if it leads to the system's own directories,
	// and if no earlier directory in Path, the child's PATH, is relative, empty, or one that commands can write to.
	Found map[string]string
	Path  string
	Leads map[string]string // where the paths lead that Files names, as command.Setting says; nil: there was no lookup
	Dir   string            // absolute
	// Located says where the paths of the additional permissions lead, by the paths as the request has them. A path without an entry
	// counts as it is written, because the machine could not say.
	Located map[string]messages.Location
	// Environment is the request's own environment policy, not the session's; nil for none.
	Environment *messages.EnvironmentPolicy
	// OpenInput says that the command's input stays open while it runs: always on a terminal, and on a pipe if the
	// request says so. An interpreter may run the text that is written there.
	OpenInput bool
	messages.CommandPolicy
	// Patch is set if the request is no command but a patch. Argv then is what is shown of it, and Located has its files by their paths;
	// AdditionalPermissions are those with which it would be applied.
	Patch *Patch
	// Host is set if the request is no command but a connection of a running one. Argv then is what is shown of it, and Dir the
	// directory of the command.
	Host *Host
	// Execution is set if the request is no command but a program that a process of a running one is about to execute; see
	// Execution.Request.
	Execution *Execution
}

// NotFound is the Program of a name that leads nowhere. It may lead somewhere by the time the command runs, so nothing is
// known about it.
const NotFound = "not found"

// Snapshot is the input of a plan besides the request. It is never changed; a running plan keeps its own.
type Snapshot struct {
	Approval messages.ApprovalPolicy
	Sandbox  messages.SandboxPolicy
	Rules    *rules.Set // nil: none
	// Unreadable says what happens to a command that the rules cannot be applied to, where nobody may be asked about it.
	Unreadable messages.RulesUnreadable
	// Dir is the session's own directory, which its commands may write to; absolute.
	Dir string
	// TempDir is the host's directory for temporary files, which commands may write to, too; absolute, or empty for none.
	TempDir string
	// TrustedShells are absolute paths of shells besides the system's own, such as the one in the user database.
	TrustedShells []string
	// Executions says that the rules hold for every program that a confined command executes, when it does. An allow rule then does
	// not lift the sandbox, without which executions are not seen.
	Executions bool
	// Granted reports whether a person has approved the command with this key for the session; nil: nothing is.
	Granted func(key string) bool
}

// Decision is the outcome of a plan.
type Decision string

// The decisions.
const (
	Run    Decision = "run"
	Ask    Decision = "ask"
	Reject Decision = "reject"
)

// Attempt is the way in which a command is tried.
type Attempt string

// The attempts. Sandboxed means that the session's sandbox policy applies, which need not involve a sandbox of ours.
const (
	Sandboxed   Attempt = "sandboxed"
	Unsandboxed Attempt = "unsandboxed"
)

// OnDenial is what happens when the sandbox stops the first attempt.
type OnDenial string

// The answers to a denial.
const (
	Return OnDenial = "return" // the denial is the result
	AskTo  OnDenial = "ask"    // it runs again without a sandbox if a person agrees
	Retry  OnDenial = "retry"  // it does so at once, because a person has agreed for the session, after an earlier denial
)

// Plan is the decision about one command.
type Plan struct {
	Decision Decision
	// Reason says why a person is asked, or why the command is rejected. It reveals nothing that the person does not
	// see anyway.
	Reason string
	// Source is what decided: a rule, the cache, or the policies.
	Source messages.DecisionSource
	// Rule is the rule behind the decision, as messages.ToolDecision has it; empty if none is. Of a plan about an execution it is the one
	// that forbids or asks, as RuleText has it.
	Rule string
	// Unread says why rules that forbid or ask could not be applied to all that the command runs; empty if they could.
	Unread string
	// Unasked is Run if the command may run though nobody is there to be asked.
	Unasked      Decision
	FirstAttempt Attempt
	OnDenial     OnDenial
	// Segments are the commands that run, for display in a question: those that are asked about first, at most 10.
	// MoreSegments counts the others. There are none if no question is possible.
	Segments     []messages.Segment
	MoreSegments int
	// Amendment is the prefix that an approval could turn into a rule; nil for none.
	Amendment []string
	// HostRule is the rule about a host that an approval could make; nil for none.
	HostRule *messages.HostRule
	// CacheKey is equal for commands that one approval for the session covers, and empty if no question is possible. An
	// approval of a command with open input also covers the same command with closed input, which has another key. A second
	// attempt after a denial has the key that AfterDenial returns.
	CacheKey string
}
