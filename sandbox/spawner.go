package sandbox

import (
	"context"
	"fmt"
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
	// WardenEnvironment says what of this process's environment the warden gets for its start: all of it by default. Nothing
	// of it ever reaches a command.
	WardenEnvironment messages.EnvironmentPolicy
	// StateDir is a directory in which a spawner notes, while it has a warden, what to look for if it and its warden are
	// killed together. The next spawner of the same user with the same directory ends what they left. Empty means that
	// nobody does. It is made if it does not exist; an absolute path.
	StateDir string
	// Recovered is called when something was found and ended that way. It must not block. May be nil.
	Recovered func(messages.TreeReport)
	// Notice is called with a sentence for a person where the spawner does otherwise than asked. It must not block. May be nil.
	Notice func(text string)
	// Lost is called when a warden died unexpectedly, from a goroutine of the spawner. It must not block. May be nil.
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

// spawn refuses what cannot be enforced before it looks for the program.
func spawn(ctx context.Context, launch ptyio.Launch, starter ptyio.Starter) (ptyio.Child, error) {
	if _, err := can(launch); err != nil {
		return nil, err
	}
	return ptyio.Spawn(ctx, launch, starter)
}

// can is what the spawners here make of a launch: they enforce nothing yet.
func can(launch ptyio.Launch) (messages.Enforcement, error) {
	if set := launch.Limits.Set(); len(set) > 0 {
		return messages.Enforcement{}, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "limit " + string(set[0]),
			Detail: "nothing here can enforce it; leave the limit out"}
	}
	if launch.Sandbox == nil {
		return messages.Enforcement{Level: messages.AssuranceNone}, nil
	}
	return messages.Enforcement{}, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox",
		Detail: fmt.Sprintf("there is no sandbox here, and %q needs one; choose danger-full-access, or external-sandbox if the host is confined itself",
			launch.Sandbox.Confinement().Policy)}
}

// stepError is the errno of a birth; without a step nobody knows of which.
func stepError(step string, errno syscall.Errno) error {
	if step == "" {
		return errno
	}
	return &ptyio.StepError{Step: step, Errno: errno}
}
