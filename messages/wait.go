package messages

import "time"

// AwaitExit waits for the exit of leaders and takes nothing from those who wait for output. For one process it is answered
// with an *Exit, for several with Exits; or with an *Error.
type AwaitExit struct {
	// Processes are those that are waited for, at most 4,096.
	Processes []ProcessID `json:"processes"`
	// Any answers when the first of several has exited; otherwise all must have.
	Any bool `json:"any,omitempty"`
	// For bounds the wait; when it is over the answer is what there is. Nil means no bound, and zero does not wait.
	For *time.Duration `json:"forNs,omitempty"`
}

// Exit is how a leader exited.
type Exit struct {
	Process ProcessID `json:"process"`
	// Exited is false where the wait was over before the leader was. Otherwise Status is what the kernel said, or none: then
	// Lost says why.
	Exited bool       `json:"exited"`
	Status ExitStatus `json:"status"`
	Lost   string     `json:"lost,omitempty"`
}

// Exits answers a wait for several processes: those that have exited, in that order.
type Exits []Exit
