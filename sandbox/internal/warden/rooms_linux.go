package warden

import (
	"errors"
	"path"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/isolate"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// rooms holds the plans that the host has registered, and the threads that start the commands confined by them. It belongs to the
// bearer whose turn it is. There is one thread for each kind of filter in use, a dozen at most.
type rooms struct {
	plans     map[uint64]*registered
	nurseries map[seccomp.Kind]*birth.Nursery
	filters   map[seccomp.Kind][]unix.SockFilter // of isolated commands
	leaving   sync.WaitGroup                     // cells of withdrawn plans that are being tidied
}

// registered is a plan with its descriptors.
type registered struct {
	plan    confine.Plan
	files   []int
	creates []string // the directories of protected names that its commands may create
	cell    *cell
}

// register takes over a plan. The host bounds their number: see package wire.
func (r *rooms) register(id uint64, plan confine.Plan, files []int) {
	if r.plans == nil {
		r.plans = map[uint64]*registered{}
	}
	p := &registered{plan: plan, files: files, cell: newCell()}
	for _, place := range plan.Places {
		if place.Access == confine.Write && place.Missing() {
			p.creates = append(p.creates, path.Dir(place.Path))
		}
	}
	r.plans[id] = p
}

// idle returns the cells that may have unneeded placeholders, if commands of their plan can write to one of the directories.
func (r *rooms) idle(dirs []string) (cells []*cell) {
	for _, p := range r.plans {
		if p.cell.idles() && slices.ContainsFunc(dirs, func(dir string) bool { return isolate.Writable(&p.plan, dir) }) {
			cells = append(cells, p.cell)
		}
	}
	return cells
}

func (r *rooms) withdraw(id uint64) {
	if p := r.plans[id]; p != nil {
		r.leaving.Go(p.cell.forsake) // a file system may not answer
		if p.cell.network != nil {
			p.cell.network.Close()
		}
		for _, fd := range p.files {
			_ = unix.Close(fd)
		}
		delete(r.plans, id)
	}
}

// confine returns the steps that confine the leader of a start, and the thread that starts it. A start without a plan is not
// confined.
func (r *rooms) confine(s *wire.Start, files []int) ([]birth.Step, *birth.Nursery, error) {
	if s.Plan == 0 {
		return nil, nil, nil
	}
	p := r.plans[s.Plan]
	if p == nil || s.Level != confine.Confined || s.Ruleset < 0 || s.Ruleset >= len(files) {
		return nil, nil, &birth.Error{Step: "plan", Errno: unix.EINVAL}
	}
	nursery, err := r.nursery(confine.KindOf(&p.plan))
	if err != nil {
		return nil, nil, err
	}
	return confine.Born(files[s.Ruleset]), nursery, nil
}

func (r *rooms) nursery(kind seccomp.Kind) (*birth.Nursery, error) {
	if n := r.nurseries[kind]; n != nil {
		return n, nil
	}
	n, err := confine.NewNursery(kind)
	if err != nil {
		errno, _ := errors.AsType[syscall.Errno](err)
		return nil, &birth.Error{Step: "seccomp", Errno: errno}
	}
	if r.nurseries == nil {
		r.nurseries = map[seccomp.Kind]*birth.Nursery{}
	}
	r.nurseries[kind] = n
	return n, nil
}

func (r *rooms) filter(kind seccomp.Kind) []unix.SockFilter {
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
// answer, it waits until this process is killed: see the alarm and sandbox.patience.
func (r *rooms) close() {
	for _, p := range r.plans {
		p.cell.end()
	}
	r.leaving.Wait()
}
