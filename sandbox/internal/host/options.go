package host

import (
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Options of wardens; package sandbox explains them.
type Options struct {
	Warden      string
	Environment messages.EnvironmentPolicy
	StateDir    string
	Recovered   func(messages.TreeReport)
	Notice      func(text string)
	Lost        func(WardenLost)
	Timeouts    Timeouts
}

// WardenLost reports the death of a warden, as package sandbox does.
type WardenLost struct {
	PID      int
	Status   messages.ExitStatus
	Children int
	Tree     messages.TreeReport
	Output   string
}

// Timeouts say how long a host waits for its warden. The zero value stands for DefaultTimeouts.
type Timeouts struct {
	// Hello is how long the warden may take to greet, including the host's initialisers in it.
	Hello time.Duration
	// Close is how long a warden may take to end everything before it is killed: grace, the wait for SIGKILL to work, and
	// some time for a loaded machine.
	Close time.Duration
	// Send is how long a warden may leave its requests unread; then it is treated as dead.
	Send time.Duration
	// Last is how long the request to end everything may wait behind a message that the warden does not read.
	Last time.Duration
	// Execute is how long the kernel may take to execute a program; a cold disk takes less. Then the start fails.
	Execute time.Duration
	// Watch is the pause between two looks at a warden with leaders.
	Watch time.Duration
}

// DefaultTimeouts are those of every host but some tests.
func DefaultTimeouts() Timeouts {
	return Timeouts{Hello: 10 * time.Second, Close: 6 * time.Second, Send: 10 * time.Second, Last: time.Second,
		Execute: 4 * time.Second, Watch: time.Second}
}

func errClosed() error {
	return &messages.Error{Code: messages.ErrClosed, Op: "spawn", Detail: "the spawner is closed"}
}

// stepError is the errno of a start, with the step that failed if it is known.
func stepError(step string, errno syscall.Errno) error {
	if step == "" {
		return errno
	}
	return &ptyio.StepError{Step: step, Errno: errno}
}
