package messages

import "time"

// AwaitExit waits for the exit of leaders and takes nothing from calls that wait for output. For one process it is answered
// with an *Exit, for several with Exits; or with an *Error.
type AwaitExit struct {
	// Processes are the processes to wait for, at most 4,096.
	Processes []ProcessID `json:"processes"`
	// Any answers when the first of several has exited; otherwise all must have exited.
	Any bool `json:"any,omitempty"`
	// For bounds the wait; when it is over the answer has the exits so far. Nil means no bound, and zero does not wait.
	For *time.Duration `json:"forNs,omitempty"`
}

// Exit is how a leader exited.
type Exit struct {
	Process ProcessID `json:"process"`
	// Exited is false if the wait was over before the leader exited. Otherwise Status is what the kernel reported; if it is none,
	// Lost says why.
	Exited bool       `json:"exited"`
	At     time.Time  `json:"at,omitzero"` // when the runtime learned of the exit
	Status ExitStatus `json:"status"`
	Lost   string     `json:"lost,omitempty"`
}

// Exits answers a wait for several processes: those that have exited, in the order of their exits.
type Exits []Exit
