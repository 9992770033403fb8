package sandbox

import (
	"syscall"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Options of a spawner. The zero value is the platform's default.
type Options struct {
	// Direct forks from the host itself instead of a warden.
	Direct bool
	// Warden is the executable that becomes the warden; empty means this process's own. It must have been built with the
	// same version of this package.
	Warden string
	// WithoutNamespaces has commands confined, and never isolated: for hosts whose commands must see the host's processes,
	// and for tests.
	WithoutNamespaces bool
	// WardenEnvironment says which part of this process's environment the warden gets for its start: all of it by default.
	// Nothing of it ever reaches a command.
	WardenEnvironment messages.EnvironmentPolicy
	// StateDir is a directory in which a spawner notes, while it has a warden, which marks to look for if it and its warden
	// are killed together. The next spawner of the same user with the same directory ends the processes that they left. It
	// is an absolute path, and is made if it does not exist. If it is empty, nobody ends them.
	StateDir string
	// Recovered is called when something was found and ended that way. It must not block. It may be nil.
	Recovered func(messages.TreeReport)
	// Notice is called with a sentence for a person where the spawner deviates from these options. It must not block. It may
	// be nil.
	Notice func(text string)
	// Lost is called when a warden died unexpectedly, from a goroutine of the spawner. It must not block. It may be nil.
	Lost func(WardenLost)

	patience *patience // nil is the usual one
}

// WardenLost tells of the death of a warden.
type WardenLost struct {
	PID    int
	Status messages.ExitStatus
	// Children counts the leaders that died with it.
	Children int
	// Tree is what the search for their descendants found.
	Tree messages.TreeReport
	// Output is the end of the text that the warden wrote before it died, at most 4 KiB: normally a Go panic.
	Output string
}

// New makes a spawner. The warden starts with the first child, or when the spawner's method Ready(context.Context) error is
// called, whose error says why the warden does not start.
func New(options Options) (ptyio.Spawner, error) {
	if options.Direct {
		return newDirect()
	}
	return newDefault(options)
}

// stepError is the errno of a birth, with the step that failed if it is known.
func stepError(step string, errno syscall.Errno) error {
	if step == "" {
		return errno
	}
	return &ptyio.StepError{Step: step, Errno: errno}
}
