package warden

import (
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// executions returns the filter for a start whose executions are to be seen; nil for another.
func (w *warden) executions(n *child) (*executions.Filter, error) {
	if n.wanted = n.start.spec.Executions; n.wanted == nil {
		return nil, nil
	}
	filter, err := executions.NewFilter()
	if err != nil {
		return nil, &birth.Error{Step: "seccomp listener", Errno: unix.EAGAIN}
	}
	return filter, nil
}

// see begins to see the executions of a tree. It is called with w.mu held. What is seen goes to the host after Started. A host that does
// not read delays executions, as it delays everything else.
func (w *warden) see(n *child) {
	if n.wanted == nil || n.tree.Listener() < 0 { // somebody has killed the leader before it could have one
		return
	}
	id := n.start.id
	say := func(r wire.Reply) {
		r.ID = id
		_ = w.conn.Send(&r)
	}
	w.watches[id] = executions.Start(n.tree.Listener(), *n.wanted, executions.To{
		Ask: func(number uint64, e executions.Execution) {
			say(wire.Reply{Execution: &wire.Execution{Number: number, Execution: e}})
		},
		Settled: func(number uint64, fate executions.Fate) {
			say(wire.Reply{Settled: &wire.Settled{Number: number, Fate: fate}})
		},
		Seen: func(batch []executions.Execution, dropped int) {
			say(wire.Reply{Seen: &wire.Seen{Batch: batch, Dropped: dropped}})
		},
	})
	n.wanted = nil
}
