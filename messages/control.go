package messages

import "time"

// Terminate ends a process with its tree. It is answered with the *EndRecord when both have ended, or with an *Error.
type Terminate struct {
	Process ProcessID    `json:"process"`
	By      TerminatedBy `json:"by,omitempty"` // empty means TerminatedByUser
	// Grace replaces the command's own; zero means SIGKILL at once.
	Grace *time.Duration `json:"graceNs,omitempty"`
}

// Processes are processes of a session, ordered by id.
type Processes []ProcessInfo

// ProcessState is where a process stands. States only move forward; but a command that its sandbox stopped may go back to
// awaiting approval or starting, for another attempt.
type ProcessState string

// The states.
const (
	StatePlanning         ProcessState = "planning"
	StateAwaitingApproval ProcessState = "awaiting_approval"
	StateStarting         ProcessState = "starting"
	StateRunning          ProcessState = "running"
	StateExited           ProcessState = "exited" // the leader is dead; its tree or its output is not
	StateClosed           ProcessState = "closed" // everything has ended
)

// ProcessInfo describes one process.
type ProcessInfo struct {
	Process  ProcessID    `json:"process"`
	Call     CallID       `json:"call,omitempty"`
	Owner    string       `json:"owner,omitempty"`
	Label    string       `json:"label"` // the script, or the arguments as a shell would read them: the first 4 KiB
	Dir      string       `json:"dir"`
	TTY      bool         `json:"tty"`
	Size     Size         `json:"size,omitzero"` // of the terminal, as it is now
	PID      int          `json:"pid,omitempty"` // the kernel's pid of the leader
	State    ProcessState `json:"state"`
	Began    time.Time    `json:"began"` // when the call came, which is before any question and any wait
	LastUsed time.Time    `json:"lastUsed"`
	// Enforced is what is enforced for the latest attempt; nil if nothing was demanded.
	Enforced *Enforcement `json:"enforced,omitempty"`
	End      *EndRecord   `json:"end,omitempty"` // of an ended process
	// Awaits is what a list has found at one look, made for it; nil of a process without a program that runs.
	Awaits *Awaits `json:"awaits,omitempty"`
}

// UpdateEnvironment changes what later commands of a session start from; running ones keep what they have. It is answered
// with an *Error if that is impossible. Nil fields change nothing.
type UpdateEnvironment struct {
	Dir         *string            `json:"dir,omitempty"`
	Environment *EnvironmentPolicy `json:"environment,omitempty"`
	Approval    *ApprovalPolicy    `json:"approval,omitempty"`
	// Sandbox replaces the policy. Its paths are resolved anew, from the session's directory as it is then.
	Sandbox        *SandboxPolicy `json:"sandbox,omitempty"`
	LeastAssurance *Assurance     `json:"leastAssurance,omitempty"`
	Limits         *Limits        `json:"limits,omitempty"`
}

// ReadOutput reads remembered output and takes none from calls that poll. It works after the end, too, as long as the
// process is remembered. It is answered with an *OutputPage or an *Error; ErrOutputUnretained names the ranges that can be read.
type ReadOutput struct {
	Process ProcessID `json:"process"`
	// Exactly one of the three says where to begin: at a byte, behind a chunk, or so many bytes before the end.
	Offset   *int64  `json:"offset,omitempty"`
	AfterSeq *uint64 `json:"afterSeq,omitempty"`
	Tail     int     `json:"tail,omitempty"`
	// Max bounds the bytes of the answer; zero means MaxRead, which is also the most.
	Max int `json:"max,omitempty"`
	// Wait is how long to wait for output if there is none yet behind Offset or AfterSeq; at most MaxReadWait. The end of
	// the output ends the wait, too.
	Wait time.Duration `json:"waitNs,omitempty"`
	// SkipLost begins at the next output that is kept if the output at Offset or AfterSeq is not kept any more, and says how much
	// was skipped; without SkipLost that is an error.
	SkipLost bool `json:"skipLost,omitempty"`
}

// MaxReadWait is the longest wait of a ReadOutput.
const MaxReadWait = 300 * time.Second

// MaxRead is the most that one ReadOutput returns, in bytes.
const MaxRead = 1 << 20

// OutputPage is a stretch of remembered output.
type OutputPage struct {
	Chunks []OutputChunk `json:"chunks"`
	// Total is the number of bytes of output so far, and LastSeq is the number of the newest chunk.
	Total   int64  `json:"total"`
	LastSeq uint64 `json:"lastSeq"`
	// Retained says what can be read.
	Retained []OutputRange `json:"retained"`
	// Missed is how many bytes were skipped between Offset and the first chunk, MissedChunks how many chunks behind AfterSeq;
	// see ReadOutput.SkipLost.
	Missed       int64  `json:"missed,omitempty"`
	MissedChunks uint64 `json:"missedChunks,omitempty"`
	// Ended says that no more output will come.
	Ended bool `json:"ended"`
}

// OutputChunk is an OutputDelta as it is remembered; the first and the last of a page may be parts.
type OutputChunk struct {
	Seq    uint64 `json:"seq"`
	Offset int64  `json:"offset"`
	Stream Stream `json:"stream"`
	Bytes  []byte `json:"bytes"`
}

// OutputRange is a stretch of output without a hole: bytes from First to before End, of chunks from FirstSeq to before
// EndSeq.
type OutputRange struct {
	First    int64  `json:"first"`
	End      int64  `json:"end"`
	FirstSeq uint64 `json:"firstSeq"`
	EndSeq   uint64 `json:"endSeq"`
}
