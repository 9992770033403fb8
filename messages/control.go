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
	Process ProcessID `json:"process"`
	Call    CallID    `json:"call,omitempty"`
	Owner   string    `json:"owner,omitempty"`
	Label   string    `json:"label"` // the script, or the arguments as a shell would read them: the first 4 KiB
	Dir     string    `json:"dir"`
	TTY     bool      `json:"tty"`
	Size    Size      `json:"size,omitzero"` // of the terminal, as it is now
	PID     int       `json:"pid,omitempty"` // the kernel's pid of the leader
	// Limits are what bounds it: the tighter ones of its session and of its command.
	Limits Limits `json:"limits,omitzero"`
	// Keyboard says that a person has its keyboard, and who.
	Keyboard *KeyboardHolder `json:"keyboard,omitempty"`
	State    ProcessState    `json:"state"`
	Began    time.Time       `json:"began"` // when the call came, which is before any question and any wait
	LastUsed time.Time       `json:"lastUsed"`
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
	// Exactly one of the four says where to begin: at a byte, behind a chunk, so many bytes before the end, or at a line. Lines are
	// counted from 1, or from the end: -1 is the last one. Output that was lost on its way does not count. A Grep without one
	// begins with the first byte, and cannot begin behind a chunk.
	Offset   *int64  `json:"offset,omitempty"`
	AfterSeq *uint64 `json:"afterSeq,omitempty"`
	Tail     int     `json:"tail,omitempty"`
	Line     *int64  `json:"line,omitempty"`
	// Grep answers with lines instead of chunks.
	Grep *Grep `json:"grep,omitempty"`
	// Max bounds the bytes of the answer; zero means MaxRead, which is also the most.
	Max int `json:"max,omitempty"`
	// Wait is how long to wait for output if there is none yet behind Offset or AfterSeq; at most MaxReadWait. The end of
	// the output ends the wait, too.
	Wait time.Duration `json:"waitNs,omitempty"`
	// SkipLost begins at the next output that is kept if the output at Offset or AfterSeq is not kept any more, and says how much
	// was skipped; without SkipLost that is an error.
	SkipLost bool `json:"skipLost,omitempty"`
	// View adds to the page what a view shows of its chunks, as OutputPage.Shown. The page then goes on up to Max or to output that is not
	// kept; without a View it may be shorter. With a Grep the text of each line is answered, which
	// lacks what was found where a later part of the line is written over it; a search has no screen.
	View View `json:"view,omitempty"`
}

// Most is the bound on the bytes of the answer.
func (m ReadOutput) Most() int {
	if m.Max <= 0 || m.Max > MaxRead {
		return MaxRead
	}
	return m.Max
}

// Grep finds lines in remembered output. A search skips what is not kept, and the answer says how much that is.
type Grep struct {
	// Pattern is a regular expression (RE2) of at most MaxPattern bytes. It is compared with each line without its end (\n or \r\n). A
	// line of more than MaxGrepLine bytes is several lines to it, and so is one with a gap in it.
	Pattern string `json:"pattern"`
	// Before and After are how many lines around a matching one are answered, at most MaxGrepContext each.
	Before int `json:"before,omitempty"`
	After  int `json:"after,omitempty"`
	// Matches bounds the matching lines of one answer; zero means MaxGrepMatches, which is also the most.
	Matches int `json:"matches,omitempty"`
	// Bytes bounds how much is searched; zero means all there is.
	Bytes int64 `json:"bytes,omitempty"`
}

// Bounds of a Grep.
const (
	MaxGrepMatches = 1000
	MaxGrepContext = 100
	// MaxGrepShown is how much of a line is answered, in bytes, and MaxGrepLine how much of one is compared as a whole.
	MaxGrepShown = 4 << 10
	MaxGrepLine  = 256 << 10
	// MaxGrepTime is how long one search goes on before it answers with what it has found. The next one continues at Next.
	MaxGrepTime = 10 * time.Second
)

// MaxReadWait is the longest wait of a ReadOutput.
const MaxReadWait = 300 * time.Second

// MaxRead is the most that one ReadOutput returns, in bytes.
const MaxRead = 1 << 20

// OutputPage is a part of remembered output.
type OutputPage struct {
	Chunks []OutputChunk `json:"chunks"`
	// Shown is the chunks in the view that was asked for; nil means the raw one. A screen is the terminal's behind the last chunk.
	Shown *Shown `json:"shown,omitempty"`
	// Total is the number of bytes of output so far, and LastSeq is the number of the newest chunk.
	Total   int64  `json:"total"`
	LastSeq uint64 `json:"lastSeq"`
	// Retained says what can be read.
	Retained []OutputRange `json:"retained"`
	// Missed is how many bytes were skipped between Offset and the first chunk, MissedChunks how many chunks behind AfterSeq;
	// see ReadOutput.SkipLost.
	Missed       int64  `json:"missed,omitempty"`
	MissedChunks uint64 `json:"missedChunks,omitempty"`
	// Lines are the lines that a Grep has found, with those around them, in their order. Next is where the search ended: another one that
	// begins there misses nothing. Missed counts the bytes before Next that are not kept and were not searched.
	Lines []OutputLine `json:"lines,omitempty"`
	Next  int64        `json:"next,omitempty"`
	// Sizes are those of a terminal that was resized. They are not part of what View shows.
	Sizes TerminalSizes `json:"sizes,omitempty"`
	// Ended says that no more output will come.
	Ended bool `json:"ended"`
}

// TerminalSizes are the last sizes of a terminal, at most MaxTerminalSizes, in the order of their offsets.
type TerminalSizes []TerminalSize

// MaxTerminalSizes bounds TerminalSizes.
const MaxTerminalSizes = 16

// TerminalSize is a size that a terminal had from an offset of its output on. The program may have learned it later: as on any terminal, what
// it printed until then is shown on a screen that already has this size.
type TerminalSize struct {
	Offset int64 `json:"offset"`
	Size   Size  `json:"size"`
}

// Changed returns the sizes with another one, and with the one before if that was the first. It leaves the old ones as they are.
func (s TerminalSizes) Changed(offset int64, before, now Size) TerminalSizes {
	if len(s) == 0 && before != now {
		s = TerminalSizes{{Size: before}}
	}
	if len(s) == 0 || s[len(s)-1].Size == now {
		return s
	}
	return append(s[max(0, len(s)-MaxTerminalSizes+1):len(s):len(s)], TerminalSize{offset, now})
}

// OutputLine is a line of remembered output, without its end.
type OutputLine struct {
	Offset int64  `json:"offset"`
	Number int64  `json:"number,omitempty"` // counted from 1; zero if it is not known, because output before it is not kept
	Match  bool   `json:"match,omitempty"`  // it is one that matches, not one around it
	Bytes  []byte `json:"bytes"`            // at most MaxGrepShown
	Cut    int64  `json:"cut,omitempty"`    // so many bytes of it are missing here
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
