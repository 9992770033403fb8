package host

import (
	"context"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Start is a start with all that was decided about its sandbox.
type Start struct {
	ptyio.Start
	Enclosure *Enclosure // nil for none
	// Enforced says what is enforced of the sandbox and of the limits; nil if nothing had to be enforced.
	Enforced *messages.Enforcement
}

// Within starts leaders in an enclosure by a starter of this package. It implements ptyio.Starter.
type Within struct {
	Enclosure *Enclosure
	Enforced  *messages.Enforcement
	By        interface {
		Start(context.Context, Start) (ptyio.Leader, error)
	}
}

// Start implements ptyio.Starter.
func (w Within) Start(ctx context.Context, start ptyio.Start) (ptyio.Leader, error) {
	return w.By.Start(ctx, Start{start, w.Enclosure, w.Enforced})
}
