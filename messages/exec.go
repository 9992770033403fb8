package messages

import (
	"fmt"
	"time"
)

// ExecCommand asks for one command to be run: a program with its arguments (Argv), or a script for a shell (Script). It is
// answered once: with a *Result when the command has ended or the yield time is over, or with an *Error. After the yield time the
// process lives on.
type ExecCommand struct {
	CommandPolicy
	// Call is the caller's name for this call; events carry it. It may be empty.
	Call CallID `json:"call,omitempty"`
	// Owner is a label for the turn, subagent or other unit that the command belongs to: see Session.EndOwner, and DecisionAborted.
	// Commands without an owner do not belong together.
	Owner string `json:"owner,omitempty"`
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of the environment.
	Argv []string `json:"argv,omitempty"`
	// Argv0, if not empty, is the name that the program gets as its own.
	Argv0 string `json:"argv0,omitempty"`
	// Script, of at most MaxScript bytes, is run by Shell: a path, or a name (bash, zsh, sh) that is looked up; empty means the user's
	// own shell. It has to be a shell that rules understand: that of the user database, or one in the system's own directories.
	// Login makes it a login shell (-lc instead of -c).
	Script string `json:"script,omitempty"`
	Shell  string `json:"shell,omitempty"`
	Login  *bool  `json:"login,omitempty"`
	// Dir is the working directory; a relative one is relative to the session's, and empty means the session's.
	Dir string `json:"dir,omitempty"`
	// Environment says how the child's environment is built; nil means the session's policy.
	Environment *EnvironmentPolicy `json:"environment,omitempty"`
	// TTY runs the command on a terminal of this Size; otherwise it runs on pipes, with stdout and stderr separate.
	TTY  bool `json:"tty,omitempty"`
	Size Size `json:"size"`
	// Attended says that a terminal of a person shows the output of a command on a terminal, and that what it sends comes back as input.
	// Without one, programs that ask their terminal something, such as where the cursor is, get fixed answers: see package ptyio.
	Attended bool `json:"attended,omitempty"`
	// OpenStdin gives a command on pipes an input that can be written to; otherwise it reads end-of-file.
	OpenStdin bool `json:"openStdin,omitempty"`
	// Merged gives a command on pipes one pipe for stdout and stderr: its output comes in the order in which it was written,
	// all of it as stdout. On a terminal there is only one stream anyway.
	Merged bool `json:"merged,omitempty"`
	// OnLeaderExit says what happens to background children; the zero value ends them.
	OnLeaderExit OnLeaderExit `json:"onLeaderExit,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL when the tree is ended; nil means 500 ms, and zero means SIGKILL at once.
	Grace *time.Duration `json:"graceNs,omitempty"`
	// Limits bound what the command may use, in addition to the session's limits.
	Limits Limits `json:"limits,omitzero"`
	// Yield is how long the call waits for the end before it answers with the output so far. Nil means DefaultExecYield; other
	// values are brought between MinYield and MaxYield, or with an Until the session's bound for polls.
	Yield *time.Duration `json:"yieldNs,omitempty"`
	// Until lets the call answer earlier, when there is a reason.
	Until *Until `json:"until,omitempty"`
	// MaxOutputTokens and MaxOutputBytes bound the output in Result.OutputText, a token being 4 bytes; zero means no output. The
	// tightest bound holds, including the session's. If both are nil, DefaultOutputTokens is one.
	MaxOutputTokens *int `json:"maxOutputTokens,omitempty"`
	MaxOutputBytes  *int `json:"maxOutputBytes,omitempty"`
	// View is the form of the output in Result.OutputText; empty means the session's.
	View View `json:"view,omitempty"`
}

// MaxScript bounds a script, in bytes: Linux refuses a longer argument (MAX_ARG_STRLEN, which includes the terminating NUL).
const MaxScript = 128<<10 - 1

// These bound how long calls wait for output.
const (
	MinYield          = 250 * time.Millisecond // every call
	MaxYield          = 30 * time.Second       // ExecCommand, and WriteStdin with bytes
	MinPoll           = 5 * time.Second        // Poll, and WriteStdin without bytes
	DefaultMaxPoll    = 300 * time.Second      // the same calls; a session may set another maximum
	DefaultExecYield  = 10 * time.Second
	DefaultWriteYield = 250 * time.Millisecond
)

// DefaultOutputTokens bounds the text of a result if the caller does not.
const DefaultOutputTokens = 10_000

// Result answers a call that waited for output.
type Result struct {
	Process ProcessID `json:"process"`
	Call    CallID    `json:"call,omitempty"` // the call that started the command
	// Running says that the process can still be used: its leader lives, or background children were kept.
	Running bool `json:"running"`
	// Status is how the leader exited, if it has.
	Status ExitStatus `json:"status"`
	// Lost says why Status is none although the leader has ended: the kernel's report was lost.
	Lost string `json:"lost,omitempty"`
	// Background says what happens to the children that outlived the leader; nil if there are none.
	Background *Background `json:"background,omitempty"`
	// ChunkID is six random hexadecimal digits, new for every answer.
	ChunkID string `json:"chunkId"`
	// WallTime is how long the call took.
	WallTime time.Duration `json:"wallTimeNs"`
	// Output is the output since the last answer, from Offset on in the output of the process. If that was too much, its first Head bytes
	// are the beginning, the rest is the end, and Omitted bytes between them were dropped.
	Output  []byte `json:"output"`
	Offset  int64  `json:"offset,omitempty"`
	Head    int    `json:"head,omitempty"`
	Omitted int64  `json:"omitted,omitempty"`
	// OmittedAt is the offset of the first of the omitted bytes in the output of the process. OmittedKept says that all of them can be
	// read, with a ReadOutput.
	OmittedAt   int64 `json:"omittedAt,omitempty"`
	OmittedKept bool  `json:"omittedKept,omitempty"`
	// Shown is the output in the view that was asked for; nil means the raw one.
	Shown *Shown `json:"shown,omitempty"`
	// MaxOutputTokens bounds the output in OutputText, and so does MaxOutputBytes if it is not nil.
	MaxOutputTokens int  `json:"maxOutputTokens"`
	MaxOutputBytes  *int `json:"maxOutputBytes,omitempty"`
	// Taken is, after a WriteStdin, the number of bytes that the process's terminal or pipe took. InputErr says why it did not
	// take all of them.
	Taken    int    `json:"taken,omitempty"`
	InputErr *Error `json:"inputErr,omitempty"`
	// Pending is the number of bytes of that WriteStdin that were not taken before the answer was due, and are still offered. The
	// EarlierInput of a later answer says whether they were taken.
	Pending      int            `json:"pending,omitempty"`
	EarlierInput []InputOutcome `json:"earlierInput,omitempty"`
	// Cause and By say why the process is gone, if it did not exit by itself.
	Cause Cause        `json:"cause,omitempty"`
	By    TerminatedBy `json:"by,omitempty"`
	Limit Limit        `json:"limit,omitempty"` // with TerminatedByLimit, if it is known which
	// Waiting says what a command that has not started waits for; empty if it waits for nothing.
	Waiting string `json:"waiting,omitempty"`
	// Met says why a call with an Until was answered; nil without one.
	Met *Met `json:"met,omitempty"`
	// Denial says that the sandbox stopped the command; nil means that it did not, or that this is not known.
	Denial *Denial `json:"denial,omitempty"`
	// BlockedHosts are the first connections that the command was not allowed to make and that no earlier result names, of equal ones
	// one: at most MaxBlockedHosts for a process.
	BlockedHosts []Connection `json:"blockedHosts,omitempty"`
	// RefusedExecutions are the first executions of its tree that were refused and that no earlier result names, of equal ones one: at
	// most MaxRefusedExecutions for a process. A refusal by a rule is no denial by the sandbox.
	RefusedExecutions []Execution `json:"refusedExecutions,omitempty"`
	// Patch is set if the command was a call of apply_patch and nothing else: it was applied as by ApplyPatch, and no process was started.
	Patch *PatchResult `json:"patch,omitempty"`
}

// InputOutcome is the outcome of a WriteStdin that was answered before its bytes were taken.
type InputOutcome struct {
	Bytes int    `json:"bytes"` // in the request
	Taken int    `json:"taken"` // by the process
	Err   *Error `json:"err,omitempty"`
}

// Background describes the children that outlived their leader.
type Background struct {
	Count int  `json:"count"`
	Kept  bool `json:"kept"` // as the command asked; otherwise they are being ended
}

// String is one phrase: "3 of 10 bytes were taken".
func (o InputOutcome) String() string {
	text := fmt.Sprintf("%d of %d bytes were taken", o.Taken, o.Bytes)
	if o.Err != nil {
		text += ": " + o.Err.Error()
	}
	return text
}

// String says how many children there are, and whether they are kept.
func (b *Background) String() string {
	if b.Kept {
		return fmt.Sprintf("%d kept running", b.Count)
	}
	return fmt.Sprintf("%d being ended", b.Count)
}
