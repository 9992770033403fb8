package protocol

import (
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// From a session to the actor of a patch, which also gets CancelCall and Verdict.
type (
	// BeginPatch says that the patches before it are over.
	BeginPatch struct{ Settings *shared.Settings }
	// EndPatch ends a patch unless it is being written; then it is finished first.
	EndPatch struct{ Why *messages.Error }
)
