package messages

import (
	"cmp"
	"time"
)

// Cause is why a process ended; the set is closed.
type Cause string

// The causes.
const (
	CauseExited         Cause = "exited"          // the leader ended by itself, by code or by somebody else's signal
	CauseTerminated     Cause = "terminated"      // we ended it; TerminatedBy says on whose behalf
	CauseSpawnFailed    Cause = "spawn_failed"    // it never ran
	CauseRejected       Cause = "rejected"        // policy or the user refused it
	CauseAborted        Cause = "aborted"         // the user stopped the turn while it waited for an answer
	CauseSandboxDenied  Cause = "sandbox_denied"  // the sandbox stopped it
	CauseRuntimeFailure Cause = "runtime_failure" // execbus itself failed
)

// TerminatedBy is on whose behalf a process was terminated.
type TerminatedBy string

// The initiators of a termination.
const (
	TerminatedByUser         TerminatedBy = "user"
	TerminatedByPrune        TerminatedBy = "prune"
	TerminatedBySessionClose TerminatedBy = "session_close"
	TerminatedByShutdown     TerminatedBy = "shutdown"
	TerminatedByTimeout      TerminatedBy = "timeout"
	TerminatedByLimit        TerminatedBy = "limit"
	TerminatedByOwner        TerminatedBy = "owner"
)

// OnLeaderExit declares what becomes of background children when the leader exits.
type OnLeaderExit string

// The choices. The zero value means LeaderExitEndsTree.
const (
	LeaderExitEndsTree  OnLeaderExit = "end_tree" // they are ended like the tree of a terminated process
	LeaderExitKeepsTree OnLeaderExit = "keep"     // they live on, can be read and can be terminated
)

// Survivor is a kernel process that could not be ended, or could not be proven to belong to one tree only.
type Survivor struct {
	PID  int    `json:"pid"`
	Name string `json:"name"` // the kernel's short name of the program, at most 15 bytes
	Why  string `json:"why"`
}

// TreeReport says what became of a leader's descendants.
type TreeReport struct {
	// Ended counts the descendants (the leader not included) that were still alive when the ending began or appeared
	// during it, and are gone now.
	Ended int `json:"ended"`
	// Survivors names what is still alive; empty is the normal case.
	Survivors []Survivor `json:"survivors,omitempty"`
	// Airtight is true where the kernel guarantees that no descendant can hide from the search (a subreaper, pid
	// namespace or cgroup); without it the report covers what could be found.
	Airtight bool `json:"airtight"`
}

// EndRecord is the last word on a process.
type EndRecord struct {
	Cause    Cause         `json:"cause"`
	By       TerminatedBy  `json:"by,omitempty"`    // with CauseTerminated
	Limit    Limit         `json:"limit,omitempty"` // with ByLimit, where it is known which
	Status   ExitStatus    `json:"status"`
	Tree     TreeReport    `json:"tree"`
	Duration time.Duration `json:"durationNs"`         // from the start of the program to the leader's exit; of several attempts, the last
	Waited   time.Duration `json:"waitedNs,omitempty"` // for a person, before the start and between attempts
	Detail   string        `json:"detail,omitempty"`
	Denial   *Denial       `json:"denial,omitempty"` // with CauseSandboxDenied, and where a retry was refused
}

// String is one phrase: "exited, code(0)", "terminated by prune, signal(15)".
func (r *EndRecord) String() string {
	text := string(r.Cause)
	if r.By != "" {
		text += " by " + string(r.By)
	}
	if r.Limit != "" {
		text += " (" + string(r.Limit) + ")"
	}
	if r.Status.Kind != ExitNone && r.Status.Kind != "" {
		text += ", " + r.Status.String()
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

// Denial is what is known about a command that its sandbox stopped.
type Denial struct {
	// Operation is what was not allowed, and Path or Address to what; empty where not known.
	Operation string `json:"operation,omitempty"`
	Path      string `json:"path,omitempty"`
	Address   string `json:"address,omitempty"`
	// Rule is what forbade it, in words.
	Rule string `json:"rule,omitempty"`
	// Grant is the least that would have allowed it, as a request can ask for it; nil where not known, or where nothing would.
	Grant *AdditionalPermissions `json:"grant,omitempty"`
	// FromText says that it was guessed from the output. Otherwise the kernel said so, or the output names what the policy
	// forbids.
	FromText bool `json:"fromText,omitempty"`
}

// String is one phrase: "the sandbox denied write /etc/passwd: outside of what may be written; this would allow it: write /etc".
func (d *Denial) String() string {
	text := "the sandbox denied " + cmp.Or(d.Operation, "an operation")
	if object := cmp.Or(d.Path, d.Address); object != "" {
		text += " " + object
	}
	if d.FromText {
		text += " (as its output suggests)"
	}
	if d.Rule != "" {
		text += ": " + d.Rule
	}
	if !d.Grant.Empty() {
		text += "; this would allow it: " + d.Grant.String()
	}
	return text
}
