package system

import (
	"fmt"
	"maps"
	"slices"

	"github.com/execbus/execbus/messages"
)

// root is the parent of all top-level actors. It also counts the goroutines that outlive the actors which started them, by their
// owner.
type root struct {
	children map[string]*PID
	work     map[string]int
	closing  []*PID // callers of Shutdown; not nil: no new children
}

// The messages of root.
type (
	spawn struct {
		prefix  string
		receive Receive
	}
	shutdown  struct{}
	remaining struct{}
	done      struct{}
	// workLeft reports the work of a closed actor that is still under way, and workEnded the end of one piece of it.
	workLeft struct {
		owner string
		count int
	}
	workEnded struct{ owner string }
)

func (r *root) receive(ctx *Context) {
	switch m := ctx.Message().(type) {
	case spawn:
		r.spawn(ctx, m)
	case shutdown:
		r.closing = append(r.closing, ctx.Sender())
		for _, child := range r.children {
			ctx.Stop(child)
		}
	case remaining:
		ctx.Respond(r.remaining())
	case workLeft:
		r.work[m.owner] += m.count
	case workEnded:
		if r.work[m.owner]--; r.work[m.owner] == 0 {
			delete(r.work, m.owner)
		}
	case Terminated:
		delete(r.children, m.PID.Id)
	}
	if r.closing != nil && len(r.children) == 0 && len(r.work) == 0 {
		for _, asker := range r.closing {
			ctx.Send(asker, done{})
		}
		ctx.Stop(ctx.Self())
	}
}

func (r *root) spawn(ctx *Context, m spawn) {
	if r.closing != nil {
		ctx.Respond(&messages.Error{Code: messages.ErrClosed, Op: "start actor", Subject: m.prefix, Detail: "shutting down"})
		return
	}
	pid := ctx.Spawn(m.prefix, m.receive)
	r.children[pid.Id] = pid
	ctx.Respond(pid)
}

// remaining names the children that have not ended, and the owners of goroutines that have not.
func (r *root) remaining() []string {
	names := slices.Sorted(maps.Keys(r.children))
	for _, owner := range slices.Sorted(maps.Keys(r.work)) {
		names = append(names, fmt.Sprintf("%d goroutines of %s", r.work[owner], owner))
	}
	return names
}
