package tree

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// Forest is the set of trees one process has started. It is safe for concurrent use.
//
// It holds locks because the fork, the table of leaders and the reaping of orphans must agree at every instant: a child
// that the kernel already knows and the table does not would be taken for an orphan.
type Forest struct {
	subreaper bool
	marker    *Marker // nil where orphans do not come to us

	// forking is held from before a fork until its leader is in the table, and while the table is compared with the
	// kernel's list of our children.
	forking sync.Mutex
	mu      sync.Mutex
	trees   map[int]*Tree // by the leader's pid
}

// NewForest makes a forest for a process that leaves orphans to init; its reports are not airtight.
func NewForest() *Forest { return &Forest{trees: map[int]*Tree{}} }

// NewSubreaper makes this process the one that all orphans of its trees come to. Nothing else in the process may wait for
// children, and Start must always be called from one thread that never ends: leaders die with it.
func NewSubreaper() (*Forest, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	return &Forest{subreaper: true, marker: NewMarker(), trees: map[int]*Tree{}}, nil
}

// Spec says what to start. Argv[0] is what the program sees as its name; Files are its descriptors from 0 on, with
// ^uintptr(0) for a closed one. Exited and Ended are called once each, in this order, and must not block.
type Spec struct {
	Program   string
	Argv, Env []string
	Dir       string
	Files     []uintptr
	TTY       bool // descriptor 0 becomes the controlling terminal
	Keep      bool // background children stay when the leader exits
	Grace     time.Duration
	Exited    func(messages.ExitStatus)
	Ended     func(messages.TreeReport)
}

// Start forks and executes the leader in a kernel session of its own. The error is the kernel's errno.
func (f *Forest) Start(spec Spec) (*Tree, error) {
	f.forking.Lock()
	defer f.forking.Unlock()
	t := &Tree{forest: f, spec: spec, exited: make(chan struct{}), done: make(chan struct{}), shorter: make(chan struct{}, 1)}
	t.roots = t.related
	if f.subreaper {
		t.roots, t.mark = t.orphans, f.marker.Next()
	}
	pidfd := -1
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: spec.TTY, PidFD: &pidfd}
	if f.subreaper {
		sys.Pdeathsig = syscall.SIGKILL
	}
	pid, err := syscall.ForkExec(spec.Program, spec.Argv, &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: spec.Files, Sys: sys})
	if err != nil {
		return nil, err
	}
	t.pid = pid
	t.spec.Argv, t.spec.Env, t.spec.Files = nil, nil, nil
	if pidfd < 0 { // before Linux 5.4
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return nil, syscall.ENOSYS
	}
	_ = syscall.SetNonblock(pidfd, true)
	if leader, err := readProcess(pid); err == nil {
		t.start = leader.start
	}
	f.mu.Lock()
	f.trees[pid] = t
	f.mu.Unlock()
	t.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	return t, nil
}

// Trees is a snapshot of the trees that have not ended.
func (f *Forest) Trees() []*Tree {
	f.mu.Lock()
	defer f.mu.Unlock()
	trees := make([]*Tree, 0, len(f.trees))
	for _, t := range f.trees {
		trees = append(trees, t)
	}
	return trees
}

// ReapOrphans reaps the dead among the processes that came to a subreaper from its trees.
func (f *Forest) ReapOrphans() { f.orphans() }

// orphans lists the live ones and reaps the dead. It returns nothing where we are no subreaper.
func (f *Forest) orphans() []process {
	if !f.subreaper {
		return nil
	}
	f.forking.Lock()
	defer f.forking.Unlock()
	var live []process
	for _, pid := range childrenOf(os.Getpid()) {
		f.mu.Lock()
		_, leader := f.trees[pid]
		f.mu.Unlock()
		if leader {
			continue
		}
		switch p, err := readProcess(pid); {
		case err != nil:
		case p.dead():
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		default:
			live = append(live, p)
		}
	}
	return live
}

// owner finds the tree an orphan belongs to by its mark, or nil for a stray. alone is set if only one tree is left.
func (f *Forest) owner(orphan process) (t *Tree, alone bool) {
	mark := markOf(orphan.pid)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.trees {
		if t.mark.Same(mark) {
			return t, len(f.trees) == 1
		}
	}
	return nil, len(f.trees) == 1
}

// forget takes a tree whose last member is gone off the table and reaps its leader, in this order under the lock that
// orphans takes, so that the pid is never free while the table names it.
func (f *Forest) forget(t *Tree) {
	f.forking.Lock()
	defer f.forking.Unlock()
	f.mu.Lock()
	delete(f.trees, t.pid)
	f.mu.Unlock()
	_, _ = syscall.Wait4(t.pid, nil, syscall.WNOHANG, nil)
}

// EndAll ends every tree, waits until all have reported, and then kills whatever else is left below a subreaper. It
// returns what would not die.
func (f *Forest) EndAll(grace time.Duration) []messages.Survivor {
	trees := f.Trees()
	for _, t := range trees {
		t.End(grace)
	}
	for _, t := range trees {
		t.wait(grace + killWait + time.Second)
	}
	rest := &Tree{forest: f, roots: f.orphans}
	return rest.kill(time.Now().Add(killWait))
}
