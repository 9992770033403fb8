package execbus

import (
	"context"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Enforcement returns what would be enforced now for the commands of a session with these options. It opens no session. The error
// is that of the options, or the one with which the commands would be refused: if the machine cannot enforce enough of the sandbox
// policy, the error's Enforceable says how much the machine can enforce.
func (r *Runtime) Enforcement(ctx context.Context, options SessionOptions) (messages.Enforcement, error) {
	options, err := options.withDefaults()
	if err != nil {
		return messages.Enforcement{}, err
	}
	base, err := environment(r.patience.answer, r.around.Spawner)
	if err != nil {
		return messages.Enforcement{}, err
	}
	spawner := r.around.Spawner
	confinement := actors.Confinement(*options.Sandbox, options.LeastAssurance, options.Dir, base, r.around.Protected)
	enforced, err := hostcode.Call[messages.Enforcement]{Do: func(ctx context.Context) (messages.Enforcement, error) {
		launch := ptyio.Launch{Limits: options.Limits}
		if confinement.Policy.Confined() {
			enclosure, err := spawner.Enclose(ctx, confinement)
			if err != nil {
				return messages.Enforcement{}, err
			}
			defer enclosure.Release()
			launch.Sandbox = enclosure
		}
		return spawner.Can(launch)
	}}.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		return messages.Enforcement{}, cancelled(ctx)
	}
	return enforced, ours(err, "confine", "sandbox")
}
