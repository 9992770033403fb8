package messages

import "time"

// RunCommand asks for one command to be run to its end, with stdout and stderr separate unless it says otherwise. It is
// answered once, with a *RunResult, or with an *Error if the command could not be run. Background children are ended with the
// command.
type RunCommand struct {
	CommandPolicy
	Call        CallID             `json:"call,omitempty"`
	Owner       string             `json:"owner,omitempty"` // see ExecCommand
	Argv        []string           `json:"argv,omitempty"`
	Script      string             `json:"script,omitempty"` // see ExecCommand
	Shell       string             `json:"shell,omitempty"`
	Login       *bool              `json:"login,omitempty"`
	Dir         string             `json:"dir,omitempty"`
	Environment *EnvironmentPolicy `json:"environment,omitempty"`
	// OpenStdin gives the command an input that can be written to; otherwise it reads end-of-file.
	OpenStdin bool `json:"openStdin,omitempty"`
	// TTY runs the command on a terminal of this Size, and Merged on one pipe for stdout and stderr; see ExecCommand. All
	// output is then Stdout. Attended is for streams that lead to a person's terminal; see ExecCommand.
	TTY      bool `json:"tty,omitempty"`
	Size     Size `json:"size,omitzero"`
	Attended bool `json:"attended,omitempty"`
	Merged   bool `json:"merged,omitempty"`
	// Timeout is how long the command may run before its tree is ended. Nil and zero mean that it may run for ever.
	Timeout *time.Duration `json:"timeoutNs,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL when the tree is ended. Nil means 500 ms after the command's own exit,
	// RunCancelGrace after a cancellation, and SIGKILL at once after a timeout.
	Grace *time.Duration `json:"graceNs,omitempty"`
	// Limits bound what the command may use, in addition to the session's limits.
	Limits Limits `json:"limits,omitzero"`
	// Full keeps up to MaxFullOutput bytes of each stream instead of MaxRunOutput, and joins them whole in Aggregated.
	Full bool `json:"full,omitempty"`
}

// Bounds of a RunCommand.
const (
	// MaxRunOutput is how much of the beginning of each stream a result keeps.
	MaxRunOutput = 1 << 20
	// MaxFullOutput is the same for a full run: it protects the host's memory.
	MaxFullOutput = 256 << 20
	// RunDrain is how long after the leader's exit, and the grace of its tree, a result waits for the end of both the tree and
	// the streams; it keeps the output read until then.
	RunDrain = 2 * time.Second
	// RunCancelGrace is the time between SIGTERM and SIGKILL when a run is cancelled.
	RunCancelGrace = 50 * time.Millisecond
	// ExitCodeRunTimedOut and ExitCodeRunCancelled are exit codes of a result; see RunResult.ExitCode.
	ExitCodeRunTimedOut  = 124
	ExitCodeRunCancelled = 1
)

// RunResult is how a RunCommand ended.
type RunResult struct {
	Process ProcessID `json:"process"`
	// ExitCode is ExitCodeRunTimedOut after a timeout, ExitCodeRunCancelled after a cancellation, -1 if the kernel's report was lost,
	// and otherwise the leader's own or 128+n for signal n. Status is always what the kernel reported.
	ExitCode  int        `json:"exitCode"`
	Status    ExitStatus `json:"status"`
	Lost      string     `json:"lost,omitempty"` // why Status is none although the leader has ended
	TimedOut  bool       `json:"timedOut"`
	Cancelled bool       `json:"cancelled"`
	Stdout    []byte     `json:"stdout"`
	Stderr    []byte     `json:"stderr"`
	// Aggregated is both streams in at most MaxRunOutput bytes (see Full): stdout and then stderr if they fit. Otherwise
	// stdout gets a third of the room and stderr two thirds, and either gets the room that the other does not need.
	Aggregated []byte        `json:"aggregated"`
	Omitted    int64         `json:"omitted,omitempty"`  // bytes of both streams that were read and not kept
	Duration   time.Duration `json:"durationNs"`         // from the start of the program to its exit
	Waited     time.Duration `json:"waitedNs,omitempty"` // for a person: before the start, between attempts, and about hosts and executions, which is part of Duration
	// Tree is how the command's background children ended; nil if they have not ended within RunDrain.
	Tree   *TreeReport `json:"tree,omitempty"`
	Denial *Denial     `json:"denial,omitempty"` // if the sandbox stopped the command
	Limit  Limit       `json:"limit,omitempty"`  // the limit that ended the command
	// BlockedHosts are the first connections that the command was not allowed to make, of equal ones one: at most MaxBlockedHosts.
	BlockedHosts []Connection `json:"blockedHosts,omitempty"`
	// RefusedExecutions are the first executions that were refused, of equal ones one: at most MaxRefusedExecutions.
	RefusedExecutions []Execution `json:"refusedExecutions,omitempty"`
}

// NormalizeRun turns any outcome into a result: the result itself if there is one (a timeout has one), and otherwise a
// result with exit code -1 whose stderr is the error's sentence. For a command that the sandbox stopped, Aggregated becomes
// "failed in sandbox: " and its stderr, or all of its output if stderr is empty.
func NormalizeRun(result *RunResult, err error) *RunResult {
	switch {
	case result != nil && result.Denial != nil:
		denied := *result
		said := denied.Stderr
		if len(said) == 0 {
			said = denied.Aggregated
		}
		denied.Aggregated = append([]byte("failed in sandbox: "), said...)
		return &denied
	case result != nil:
		return result
	case err != nil:
		text := []byte(err.Error())
		return &RunResult{ExitCode: -1, Status: StatusNone(), Stderr: text, Aggregated: text}
	default:
		return &RunResult{ExitCode: -1, Status: StatusNone()}
	}
}
