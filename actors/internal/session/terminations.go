package session

import (
	"fmt"
	"slices"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// terminations are the callers that wait for the end of several processes.
type terminations []*termination

// termination is a caller that waits for the end of the processes, and of the patches of an owner, that existed when it came. It does not wait for later ones: where
// commands keep coming it would wait forever.
type termination struct {
	call      protocol.CallID
	left      map[*entry]bool
	patches   map[string]bool // the addresses of their actors
	survivors []messages.Survivor
}

// ended takes an ended process out of all terminations.
func (t terminations) ended(e *entry, survivors []messages.Survivor) {
	for _, one := range t {
		if one.left[e] {
			delete(one.left, e)
			one.survivors = append(one.survivors, survivors...)
		}
	}
}

// patchOver takes a patch that is over out of all terminations.
func (t terminations) patchOver(actor *system.PID) {
	for _, one := range t {
		delete(one.patches, actor.String())
	}
}

// serve answers the terminations that are over.
func (t *terminations) serve() (do []effect) {
	*t = slices.DeleteFunc(*t, func(one *termination) bool {
		over := len(one.left) == 0 && len(one.patches) == 0
		if over {
			do = append(do, effect{message: answer{one.call, one.outcome()}})
		}
		return over
	})
	return do
}

// outcome is the answer to a termination of several that is over.
func (t *termination) outcome() any {
	if len(t.survivors) == 0 {
		return protocol.Done{}
	}
	first := t.survivors[0]
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "end processes", Subject: first.Name,
		Detail: fmt.Sprintf("%d processes may live, the first with the pid %d: %s; their records name all", len(t.survivors), first.PID, first.Why)}
}
