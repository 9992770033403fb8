package process

import (
	"context"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
)

// enclose waits for the session's enclosure, and widens it where the command asks for more. The decision then owns the
// widened one.
func (d *decision) enclose(ctx context.Context, s *shared.Settings) {
	e := s.Enclosing
	if e == nil || d.err != nil {
		return
	}
	d.enclosure, d.refused = e.Wait(ctx)
	if more := d.request.AdditionalPermissions; d.refused == nil && d.request.SandboxPermissions == messages.PermissionsWithAdditional && more != nil {
		d.enclosure, d.refused = shared.Enclosed(d.enclosure.Widen(ctx, located(*more, d.request.Located), d.launch.Dir))
		d.widened = d.refused == nil
	}
}

// discard releases the resources of a decision.
func (d *decision) discard() {
	if d != nil && d.widened {
		d.widened = false
		hostcode.Run(d.enclosure.Release)
	}
}

// Discard releases the resources of a plan that no actor takes.
func (m planned) Discard() { m.discard() }
