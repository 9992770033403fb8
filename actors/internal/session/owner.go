package session

import (
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// endOwner ends the processes of an owner. Its calls need not wait for that.
func (v *supervisor) endOwner(owner string) {
	v.terminateEach(messages.TerminatedByOwner, func(e *entry) bool { return owner != "" && e.info.Owner == owner })
	v.cancelCallsOf(owner)
}

// cancelCallsOf cancels the calls that wait for processes of an owner.
func (v *supervisor) cancelCallsOf(owner string) {
	for _, e := range v.entries {
		if owner != "" && e.info.Owner == owner {
			v.ctx.Send(e.actor, protocol.CancelCalls{})
		}
	}
}
