package tree

// Status is how the kernel reported the end of a leader. This package and what the warden imports besides it do not know
// package messages, whose imports would be initialised in every warden.
type Status struct {
	Kind   StatusKind
	Number int // the exit code or the signal
}

// StatusKind tells how a leader ended.
type StatusKind int

// The kinds.
const (
	None     StatusKind = iota // the kernel reported nothing
	Exited                     // the leader returned Number
	Signaled                   // the leader was killed by signal Number
)

// Report says what became of a leader's descendants, like messages.TreeReport.
type Report struct {
	Ended     int
	Survivors []Survivor
	Airtight  bool
}

// Survivor is a process that could not be ended.
type Survivor struct {
	PID       int
	Name, Why string
}

// Rlimit is a limit of the kernel for one process, which its children inherit.
type Rlimit struct {
	Resource   int
	Soft, Hard uint64
}
