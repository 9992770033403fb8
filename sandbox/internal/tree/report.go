package tree

// Status says how a leader ended, as the kernel reported it. This package and the warden's other imports do not import
// package messages, whose imports would be initialised in every warden.
type Status struct {
	Kind   StatusKind
	Number int // the exit code or the signal
}

// StatusKind says in which way a leader ended.
type StatusKind int

// The kinds.
const (
	None     StatusKind = iota // the kernel reported nothing
	Exited                     // the leader returned Number
	Signaled                   // the leader was killed by signal Number
)

// Report says how a leader's descendants ended, like messages.TreeReport.
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

// Rlimit is a resource limit of a process, which its children inherit.
type Rlimit struct {
	Resource   int
	Soft, Hard uint64
}
