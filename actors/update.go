package actors

import (
	"cmp"
	"strings"

	"github.com/execbus/execbus/messages"
)

// update replaces the settings of later commands.
func (v *supervisor) update(m messages.UpdateEnvironment) {
	next := *v.settings
	if m.Dir != nil {
		next.dir = v.settings.within(*m.Dir)
		if strings.ContainsRune(next.dir, 0) {
			v.ctx.Respond(badField("dir", "it contains a NUL byte; remove it", ""))
			return
		}
	}
	if m.Environment != nil {
		next.environment = *m.Environment
	}
	if m.Approval != nil {
		next.approval = *m.Approval
	}
	if m.Sandbox != nil {
		next.sandbox = m.Sandbox.Clone()
	}
	if m.LeastAssurance != nil {
		next.least = *m.LeastAssurance
	}
	if m.Limits != nil {
		next.limits = *m.Limits
	}
	if err := cmp.Or(next.approval.Check(), next.sandbox.Check(), next.least.Check(), next.limits.Check()); err != nil {
		v.ctx.Respond(err)
		return
	}
	built := next.built()
	if m.Environment != nil && built.envError != nil { // every later command would fail
		v.ctx.Respond(built.envError)
		return
	}
	if m.Sandbox != nil || m.LeastAssurance != nil {
		v.settings.enclosing.over()
		built.enclose(v.ctx.Detach, v.spawner, v.protected)
	}
	v.settings = built
	v.ctx.Respond(Done{})
}
