package messages

import (
	"cmp"
	"time"
)

// Cause is why a process ended; the set is closed.
type Cause string

// The causes.
const (
	CauseExited         Cause = "exited"          // the leader exited, or a signal killed it that execbus did not send
	CauseTerminated     Cause = "terminated"      // execbus ended the process; TerminatedBy says why
	CauseSpawnFailed    Cause = "spawn_failed"    // the program never ran
	CauseRejected       Cause = "rejected"        // a policy or the user refused the command
	CauseAborted        Cause = "aborted"         // the user stopped the turn while the command waited for an answer
	CauseSandboxDenied  Cause = "sandbox_denied"  // the sandbox stopped the command
	CauseRuntimeFailure Cause = "runtime_failure" // execbus itself failed
	CauseNodeLost       Cause = "node_lost"       // the machine that ran it was given up for lost; what became of the process is not known
)

// TerminatedBy says who or what terminated a process.
type TerminatedBy string

// The values of TerminatedBy.
const (
	TerminatedByUser         TerminatedBy = "user"
	TerminatedByPrune        TerminatedBy = "prune"
	TerminatedBySessionClose TerminatedBy = "session_close"
	TerminatedByShutdown     TerminatedBy = "shutdown"
	TerminatedByTimeout      TerminatedBy = "timeout"
	TerminatedByLimit        TerminatedBy = "limit"
	TerminatedByOwner        TerminatedBy = "owner"
)

// OnLeaderExit says what happens to background children when the leader exits.
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

// TreeReport says how a leader's descendants ended.
type TreeReport struct {
	// Ended counts the descendants (the leader not included) that were still alive when the ending began or appeared
	// during it, and are gone now.
	Ended int `json:"ended"`
	// Survivors names the processes that are still alive; normally there are none.
	Survivors []Survivor `json:"survivors,omitempty"`
	// Airtight is true if the kernel guarantees that no descendant can hide from the search (a subreaper, pid
	// namespace or cgroup); otherwise the report covers only the descendants that could be found.
	Airtight bool `json:"airtight"`
}

// EndRecord is the final record of a process.
type EndRecord struct {
	Cause    Cause         `json:"cause"`
	By       TerminatedBy  `json:"by,omitempty"`    // with CauseTerminated
	Limit    Limit         `json:"limit,omitempty"` // with TerminatedByLimit, if it is known which
	Status   ExitStatus    `json:"status"`
	Tree     TreeReport    `json:"tree"`
	Duration time.Duration `json:"durationNs"`         // from the start of the program to the leader's exit; of several attempts, the last
	Waited   time.Duration `json:"waitedNs,omitempty"` // for a person: before the start, between attempts, and about hosts and executions, which is part of Duration
	Detail   string        `json:"detail,omitempty"`
	Denial   *Denial       `json:"denial,omitempty"` // with CauseSandboxDenied, and if a retry was refused
	// BlockedHosts are the first connections that it was not allowed to make, of equal ones one: at most MaxBlockedHosts.
	BlockedHosts []Connection `json:"blockedHosts,omitempty"`
	// Executions is what its tree executed; nil if that was not seen.
	Executions *Executions `json:"executions,omitempty"`
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
	// Operation is the operation that was denied, and Path or Address is its object; empty if not known.
	Operation string `json:"operation,omitempty"`
	Path      string `json:"path,omitempty"`
	Address   string `json:"address,omitempty"`
	// Rule is the rule that forbade it, in words.
	Rule string `json:"rule,omitempty"`
	// Grant is the smallest permission that would have allowed it, in the form of a request; nil if not known, or if none would.
	Grant *AdditionalPermissions `json:"grant,omitempty"`
	// FromText says that the denial was guessed from the output. Otherwise the kernel reported it, or the output names an
	// operation that the policy forbids.
	FromText bool `json:"fromText,omitempty"`
	// NoRetry says why there was no other attempt although the approvals allowed one, or a question about one.
	NoRetry string `json:"noRetry,omitempty"`
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
	if d.NoRetry != "" {
		text += "; it did not run again without a sandbox, because " + d.NoRetry
	}
	return text
}
