package session

import (
	"slices"

	"github.com/execbus/execbus/actors/internal/patching"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// patch is a patch of a session that is not over. The first of them is being applied; the others wait, because each has to see what the
// ones before it did.
type patch struct {
	actor *system.PID
	owner string
}

// maxPatches bounds the patches of a session that are not over.
const maxPatches = 64

func (v *supervisor) applyPatch(m messages.ApplyPatch) {
	switch {
	case v.closing:
		v.ctx.Respond(&messages.Error{Code: messages.ErrClosed, Op: "apply patch", Detail: "the session is closing"})
		return
	case v.Patches == nil:
		v.ctx.Respond(&messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Detail: "this runtime applies no patches; change the files by commands"})
		return
	case len(v.patches) == maxPatches:
		v.ctx.Respond(&messages.Error{Code: messages.ErrLimitReached, Op: "apply patch", Detail: "64 patches of the session are not over; wait for one of them"})
		return
	}
	c := &openCall{}
	c.home = patching.Spawn(v.ctx, patching.Config{Session: v.Session, Caller: v.open(c), ApplyPatch: m})
	v.patches = append(v.patches, patch{c.home, m.Owner})
	if len(v.patches) == 1 {
		v.ctx.Send(c.home, protocol.BeginPatch{Settings: v.settings})
	}
}

// patchOver goes on with the next patch when an actor has ended that was a patch's.
func (v *supervisor) patchOver(actor *system.PID) {
	i := slices.IndexFunc(v.patches, func(p patch) bool { return p.actor.Equal(actor) })
	if i < 0 {
		return
	}
	if v.patches = slices.Delete(v.patches, i, i+1); i == 0 && len(v.patches) > 0 {
		v.ctx.Send(v.patches[0].actor, protocol.BeginPatch{Settings: v.settings})
	}
	v.terminations.patchOver(actor)
	v.carryOut(v.serveTerminations())
}

// patchesOf are the patches of an owner that are not over.
func (v *supervisor) patchesOf(owner string) map[string]bool {
	actors := map[string]bool{}
	for _, p := range v.patches {
		if owner != "" && p.owner == owner {
			actors[p.actor.String()] = true
		}
	}
	return actors
}

// endPatches ends the patches of an owner, or all.
func (v *supervisor) endPatches(all bool, owner string, why *messages.Error) {
	for _, p := range v.patches {
		if all || owner != "" && p.owner == owner {
			v.ctx.Send(p.actor, protocol.EndPatch{Why: why})
		}
	}
}
