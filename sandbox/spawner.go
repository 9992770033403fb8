package sandbox

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/host"
)

// Options of a spawner. The zero value is the platform's default.
type Options struct {
	// Direct forks from the host itself instead of a warden.
	Direct bool
	// Warden is the executable that becomes the warden; empty means this process's own. It must have been built with the same
	// version of this package.
	Warden string
	// WithoutNamespaces makes a warden confine commands and never isolate them. It is for hosts whose commands must see the
	// host's processes, and for tests.
	WithoutNamespaces bool
	// WardenEnvironment says which part of this process's environment the warden gets for its start: all of it by default.
	// Nothing of it ever reaches a command.
	WardenEnvironment messages.EnvironmentPolicy
	// StateDir is a directory for records about the warden. If the spawner and its warden are killed together, the next spawner
	// of the same user with the same directory ends the processes that they left. It is an absolute path, and is made if it
	// does not exist. If it is empty, nothing ends those processes.
	StateDir string
	// Recovered is called when processes were found and ended that way. It must not block. It may be nil.
	Recovered func(messages.TreeReport)
	// Notice is called with a sentence for a person if the spawner deviates from these options. It must not block. It may be
	// nil.
	Notice func(text string)
	// Lost is called from a goroutine of the spawner when a warden died unexpectedly. It must not block. It may be nil.
	Lost func(WardenLost)

	timeouts host.Timeouts // zero but in tests
}

// WardenLost reports the death of a warden.
type WardenLost struct {
	PID    int
	Status messages.ExitStatus
	// Children counts the leaders that died with it.
	Children int
	// Tree is the result of the search for their descendants.
	Tree messages.TreeReport
	// Output is the end of the text that the warden wrote before it died, at most 4 KiB: normally a Go panic.
	Output string
}

// New makes a spawner. The warden starts with the first child, or when the spawner's method Ready(context.Context) error is
// called. The error of Ready says why the warden does not start.
func New(options Options) (ptyio.Spawner, error) { return newSpawner(options) }
