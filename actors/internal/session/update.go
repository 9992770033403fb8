package session

import (
	"cmp"
	"strings"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// update replaces the settings of later commands.
func (v *supervisor) update(m messages.UpdateEnvironment) {
	next := *v.settings
	if m.Dir != nil {
		next.Dir = v.settings.Within(*m.Dir)
		if strings.ContainsRune(next.Dir, 0) {
			v.ctx.Respond(shared.BadField("dir", "it contains a NUL byte; remove it", ""))
			return
		}
	}
	if m.Environment != nil {
		next.Environment = *m.Environment
	}
	if m.Approval != nil {
		next.Approval = *m.Approval
	}
	if m.Sandbox != nil {
		next.Sandbox = messages.Clone(*m.Sandbox)
	}
	if m.LeastAssurance != nil {
		next.Least = *m.LeastAssurance
	}
	if m.Limits != nil {
		next.Limits = *m.Limits
	}
	if err := cmp.Or(next.Approval.Check(), next.Sandbox.Check(), next.Least.Check(), next.Limits.Check()); err != nil {
		v.ctx.Respond(err)
		return
	}
	built := next.Built()
	if m.Environment != nil && built.EnvError != nil { // every later command would fail
		v.ctx.Respond(built.EnvError)
		return
	}
	if m.Sandbox != nil || m.LeastAssurance != nil {
		v.settings.Enclosing.Over()
		built.Enclose(v.ctx.Detach, v.Spawner, v.Protected)
	}
	v.settings = built
	v.ctx.Respond(protocol.Done{})
}
