package warden

import (
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// planTable holds the plans that the host has registered. It belongs to the thread that serves.
type planTable struct {
	byID    map[uint64]*registered
	filters map[seccomp.Kind][]unix.SockFilter // of isolated commands
}

// registered is a plan with its descriptors.
type registered struct {
	plan    confine.Plan
	files   []int
	kind    seccomp.Kind // of the filter of its confined commands
	ruleset int          // for confined commands without a terminal; -1 for none
	cell    *cell
	uses    int // its registration, and births that need its descriptors; the last one closes them
}

// release ends a use.
func (p *registered) release() {
	if p.uses--; p.uses == 0 {
		closeAll(p.files)
	}
}

// register takes over a plan. The host bounds their number: see package wire.
func (r *planTable) register(id uint64, request *wire.Register, files []int) {
	if r.byID == nil {
		r.byID = map[uint64]*registered{}
	}
	p := &registered{plan: request.Plan, files: files, kind: confine.KindOf(&request.Plan), ruleset: at(files, request.Ruleset), cell: newCell(), uses: 1}
	r.byID[id] = p
}

// withdraw forgets a plan.
func (r *planTable) withdraw(id uint64) {
	p := r.byID[id]
	if p == nil {
		return
	}
	if p.cell.network != nil {
		p.cell.network.Close()
	}
	delete(r.byID, id)
	p.release()
}

// needs returns the filter that the leader of a start inherits. An isolated one gets its filter later.
func (r *planTable) needs(s *wire.Start) filter {
	if p := r.byID[s.Plan]; p != nil && s.Level == confine.Confined {
		return filter{on: true, kind: p.kind}
	}
	return filter{}
}

// confine returns the steps that confine the leader of a start, which inherits its filter. A start without a plan is not confined.
func (r *planTable) confine(s *wire.Start, files []int) ([]birth.Step, error) {
	if s.Plan == 0 && s.Level == confine.None {
		return nil, nil
	}
	p := r.byID[s.Plan]
	if p == nil || s.Level != confine.Confined {
		return nil, &birth.Error{Step: "plan", Errno: unix.EINVAL}
	}
	if own := at(files, s.Ruleset); own >= 0 {
		return confine.Born(own), nil
	}
	return confine.Born(p.ruleset), nil // without one, the step fails
}

// at returns the descriptor at a position; -1 for none.
func at(files []int, position int) int {
	if position < 0 || position >= len(files) {
		return -1
	}
	return files[position]
}

func (r *planTable) filter(kind seccomp.Kind) []unix.SockFilter {
	filter := r.filters[kind]
	if filter == nil {
		filter = seccomp.Filter(kind)
		if r.filters == nil {
			r.filters = map[seccomp.Kind][]unix.SockFilter{}
		}
		r.filters[kind] = filter
	}
	return filter
}

// close removes everything that is kept for commands. It is called when all commands have ended. If a file system does not
// answer, it waits until this process is killed: see the alarm and host.Timeouts.
func (r *planTable) close() {
	for _, p := range r.byID {
		p.cell.end()
	}
}
