package messages

import "time"

// ExecCommand asks for one command to be run. It is answered once, with a *Result or an *Error.
type ExecCommand struct {
	// Call is the caller's name for this call; events carry it. It may be empty.
	Call CallID `json:"call,omitempty"`
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH of the environment.
	Argv []string `json:"argv"`
	// Dir is the working directory, relative to the session's; empty means the session's.
	Dir string `json:"dir,omitempty"`
	// Environment says how the child's environment is built; nil means the session's way.
	Environment *EnvironmentPolicy `json:"environment,omitempty"`
	// TTY runs the command on a terminal of this Size; otherwise it runs on pipes, with stdout and stderr told apart.
	TTY  bool `json:"tty,omitempty"`
	Size Size `json:"size"`
	// OpenStdin gives a command on pipes an input that can be written to; otherwise it reads end-of-file.
	OpenStdin bool `json:"openStdin,omitempty"`
	// OnLeaderExit says what becomes of background children; the zero value ends them.
	OnLeaderExit OnLeaderExit `json:"onLeaderExit,omitempty"`
	// Grace lies between SIGTERM and SIGKILL when the tree is ended; zero means 500 ms.
	Grace time.Duration `json:"grace,omitempty"`
	// Yield is how long the call waits for the command before it answers with what there is: MinYield to MaxYield, other
	// values are brought there; zero means DefaultYield.
	Yield time.Duration `json:"yield,omitempty"`
}

// Bounds of ExecCommand.Yield.
const (
	MinYield     = 250 * time.Millisecond
	MaxYield     = 30 * time.Second
	DefaultYield = 10 * time.Second
)

// Result answers a call that waited for output.
type Result struct {
	Process ProcessID `json:"process"` // also set after the end, when it cannot be used any more
	Running bool      `json:"running"`
	// Status is how the leader exited, if it has.
	Status ExitStatus `json:"status"`
	// Output is what came since the last answer; Omitted counts what was dropped out of its middle.
	Output  []byte `json:"output"`
	Omitted int64  `json:"omitted,omitempty"`
	// WallTime is how long the call took.
	WallTime time.Duration `json:"wallTime"`
}
