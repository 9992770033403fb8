package sandbox

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Options of a spawner. The zero value is the platform's default.
type Options struct {
	// Direct forks from the host itself instead of a warden.
	Direct bool
	// Lost is called when a warden died unexpectedly, from a goroutine of the spawner. It must not block. May be nil.
	Lost func(WardenLost)
}

// WardenLost tells of the death of a warden.
type WardenLost struct {
	PID    int
	Status messages.ExitStatus
	// Children counts the leaders that died with it.
	Children int
	// Tree is what the search for their descendants found.
	Tree messages.TreeReport
	// Output is the end of what the warden wrote before it died, at most 4 KiB: a Go panic, normally.
	Output string
}

// New makes a spawner. The warden starts with the first child.
func New(options Options) (ptyio.Spawner, error) {
	if options.Direct {
		return newDirect()
	}
	return newDefault(options)
}
