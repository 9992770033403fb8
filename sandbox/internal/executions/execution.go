package executions

import "time"

// Execution is what ptyio.Execution is. This package does without the imports of that one, which every warden would initialise.
type Execution struct {
	PID, Parent int
	Program     string
	Resolved    string
	Argv        []string
	Cut         bool
	Dir         string
	Unread      string
}

// Wanted says which executions of a tree are seen, like ptyio.Executions.
type Wanted struct {
	Names  []string
	All    bool
	Judge  bool // somebody judges those that are named
	Report bool // somebody sees the others
}

// Verdict answers a question.
type Verdict int

// The verdicts. AllowAlike also allows later executions of the tree by the same path, which leads to the same file, with the same arguments.
// After Later another one follows, for which the question waits as long as it takes.
const (
	Refuse Verdict = iota
	Allow
	AllowAlike
	Later
)

// Fate is what became of an execution that was asked about.
type Fate int

// The fates. One that was refused by an answer has none.
const (
	Passed Fate = iota // the kernel executes it, as an answer allowed
	Late               // it was refused, because no answer came in time
	Gone               // nobody waits for an answer any more
)

// Bounds of what is read and kept for one tree. Package ptyio has those with the same names, which a test compares.
const (
	MaxArguments     = 32 << 10
	MaxBytes         = 256 << 10
	MaxReported      = 256
	MaxReportedBytes = 2 << 10
	MaxJudged        = 128
	MaxJudgedBytes   = 1 << 20
	JudgeWait        = 5 * time.Second
)
