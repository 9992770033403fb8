package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/executions"
)

// seen says in an enforcement whether the executions of a launch are seen, if it asks for that.
func (s *spawner) seen(e messages.Enforcement, wanted *ptyio.Executions) messages.Enforcement {
	if wanted == nil {
		return e
	}
	why := s.unseen
	if why == "" && e.Level == messages.AssuranceNone && !wanted.Unconfined {
		why = "nothing confines the command, and to see what it executes would stop sudo and other set-uid programs"
	}
	if why == "" {
		why = unseeable()
	}
	if why != "" {
		return ptyio.Unseen(e, why)
	}
	e.Executions = true
	return e
}

// unseeable says why no executions can be seen here; empty if they can be.
func unseeable() string {
	err := executions.Refused()
	errno, _ := errors.AsType[unix.Errno](err)
	switch {
	case err == nil:
		return ""
	case errno == unix.EBUSY:
		return "this process is watched in the same way itself, and the kernel lets one watch only, as inside of another execbus or of some containers"
	case errno == unix.EINVAL:
		return "it needs Linux 5.19"
	case errno != 0:
		return "the kernel refuses it: " + errno.Error()
	}
	return err.Error()
}
