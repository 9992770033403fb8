package policy

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// Request is one command as it is about to run. It is not changed by the plan.
type Request struct {
	Argv []string
	// Argv0 is what the program is told its own name is, if that is not Argv[0]; empty: it is.
	Argv0 string
	// Program is the absolute path that Argv[0] was found under, symbolic links not followed, or NotFound; empty if nobody
	// looked, and then a name is taken for what it usually is: the runner of the command has to look. A shell or a
	// known-safe program is only taken for one if it lies where the system keeps its own.
	Program string
	// Found is where the names in a script lead, as Names lists them: absolute paths, symbolic links not followed, or NotFound.
	// Nil: nobody looked. A name is only believed where it leads to the system's own directories, and where no directory
	// before that in Path, the child's PATH, is relative, empty, or one that commands may write to.
	Found map[string]string
	Path  string
	Dir   string // absolute
	// Environment is what the request, not the session, says about the environment; nil says nothing.
	Environment *messages.EnvironmentPolicy
	// OpenInput says that somebody can write to the command while it runs: a terminal's input stays open, and a pipe's if that
	// was asked for. What is written may be what an interpreter runs.
	OpenInput bool
	messages.CommandPolicy
}

// NotFound is the Program of a name that leads nowhere. It may lead somewhere when the command runs, so nothing is known
// about it.
const NotFound = "not found"

// Snapshot is what a plan starts from. It is never changed; a running plan keeps its own.
type Snapshot struct {
	Approval messages.ApprovalPolicy
	Sandbox  messages.SandboxPolicy
	Rules    *rules.Set // nil: none
	// Dir is the session's own directory, which its commands may write to; absolute.
	Dir string
	// TrustedShells are absolute paths of shells besides the system's own, such as the one in the user database.
	TrustedShells []string
	// Granted reports whether a person has approved the command with this key for the session; nil: nothing is.
	Granted func(key string) bool
}

// Decision is what a plan comes to.
type Decision string

// The decisions.
const (
	Run    Decision = "run"
	Ask    Decision = "ask"
	Reject Decision = "reject"
)

// Attempt is how a command is tried.
type Attempt string

// The attempts. Sandboxed means: as the session's sandbox policy says, which may be without one of ours.
const (
	Sandboxed   Attempt = "sandboxed"
	Unsandboxed Attempt = "unsandboxed"
)

// OnDenial is what happens when the sandbox stops the first attempt.
type OnDenial string

// The answers to a denial.
const (
	Return OnDenial = "return" // the denial is the result
	Retry  OnDenial = "retry"  // again without a sandbox
	AskTo  OnDenial = "ask"    // the same, if a person agrees
)

// Plan is what is to be done with one command.
type Plan struct {
	Decision Decision
	// Reason says why it is asked about or rejected; it names nothing the person does not see anyway.
	Reason string
	// Source is what decided: a rule, the cache, or the policies.
	Source       messages.DecisionSource
	FirstAttempt Attempt
	OnDenial     OnDenial
	// Segments are what runs, for a question's eyes: those that are asked about first, at most 10. MoreSegments are not among
	// them. There are none where there can be no question.
	Segments     []messages.Segment
	MoreSegments int
	// Amendment is the prefix that an approval could turn into a rule; nil for none.
	Amendment []string
	// CacheKey is equal for commands that one approval for the session covers; empty where there can be no question. An
	// approval of a command with open input also covers the same command with closed input, which has another key.
	CacheKey string
}
