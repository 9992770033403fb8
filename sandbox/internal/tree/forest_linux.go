package tree

import (
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// Forest is the set of trees that one process has started. It is safe for concurrent use.
//
// It has locks because the fork, the table of leaders and the reaping of orphans must agree at every instant. Otherwise a child
// that the kernel already knows, but the table does not, would be taken for an orphan.
type Forest struct {
	subreaper bool
	marker    *Marker      // nil where orphans do not come to us
	mortal    []birth.Step // let a leader die with the thread that starts it; none where orphans do not come to us
	first     *childList   // of the first thread, to which orphans come; nil where they do not come to us

	// forking is held from before a fork until its leader is in the table.
	forking sync.Mutex
	closed  bool // guarded by forking

	mu     sync.Mutex
	lists  map[int]*childList // of the first thread and of those that start leaders, by thread
	trees  map[int]*Tree      // by the leader's pid
	unborn map[*Tree]struct{} // those whose leader may not have executed its program
	unsaid map[*Tree]struct{} // the other trees, until after their last report; they leave the table just before it
	// survivors are the pids of processes that an ended tree has named because it could not end them. Those that become our
	// children are reaped.
	survivors map[int]struct{}

	scans shared[procs.Sessions]

	// concluding is held while a tree that seems empty checks whether strays have become its own, and leaves the table.
	concluding sync.Mutex
}

// orphan is a process of one of our trees that has become a child of this subreaper. A dead one has just been reaped: it is
// in one list only, and its own children may have come too late for that list.
type orphan struct {
	procs.Process
	trees    []*Tree // the trees to which it may belong
	certain  bool    // it belongs to the only tree in trees; otherwise it is a stray
	survivor bool    // an ended tree has named it
}

// may reports whether it may belong to a tree.
func (o orphan) may(t *Tree) bool { return slices.Contains(o.trees, t) }

// falls reports whether t has to end it: it belongs to t, or it is a stray and no other tree is left.
func (o orphan) falls(t *Tree) bool {
	return o.may(t) && len(o.trees) == 1 && (o.certain || !o.survivor)
}

// stray reports whether it lives, has not been named before, and may belong to t or to another tree.
func (o orphan) stray(t *Tree) bool {
	return !o.certain && !o.survivor && o.PID != 0 && !o.Dead() && o.may(t)
}

// marked is what an orphan's limits said when it was first found. Limits that it sets later can only say less.
type marked struct {
	start uint64
	read  bool
	span  span
}

// NewForest makes a forest for a process that leaves orphans to init. Its reports are not airtight.
func NewForest() *Forest {
	return &Forest{trees: map[int]*Tree{}, unborn: map[*Tree]struct{}{}, unsaid: map[*Tree]struct{}{},
		survivors: map[int]struct{}{}}
}

// NewSubreaper makes a forest whose process gets all orphans of its trees. No other code in the process may wait for children.
// Begin must be called from threads that end only after Leave, because leaders die with the thread that started them. Begin should not be
// called from the first thread of the process: an exit costs less if the orphans are not on the same list as many leaders. The
// process keeps some descriptors in reserve, with which it ends trees when it has no others left.
func NewSubreaper() (*Forest, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	procs.Spare.Take()
	procs.Pidfds() // while there are descriptors
	f := NewForest()
	f.subreaper, f.marker, f.mortal = true, NewMarker(), birth.DeathSignal(syscall.SIGKILL)
	f.adopt(os.Getpid())
	return f, nil
}

// adopt makes a thread the one to which orphans come.
func (f *Forest) adopt(thread int) {
	f.first = newChildList(thread)
	f.lists = map[int]*childList{thread: f.first}
}

// Marks returns the range of the marks that this forest gives.
func (f *Forest) Marks() Marks {
	if f.marker == nil {
		return Marks{}
	}
	return f.marker.Marks()
}

// Spec says what to start. Argv[0] is what the program sees as its name; Files are its descriptors from 0 on, with
// -1 for a closed one. Exited and Ended are called once each, in this order, and must not block.
type Spec struct {
	Program   string
	Argv, Env []string
	Dir       string
	Files     []int
	TTY       bool // descriptor 0 becomes the controlling terminal
	Keep      bool // background children stay when the leader exits
	Grace     time.Duration
	// Confine are steps that come before all steps of the command itself. Secret is that of the calling thread's filter, if it has one.
	Confine []birth.Step
	Secret  birth.Secret
	// Executions, if not nil, has executions of the tree reported; see Tree.Listener. For an isolated leader the launch has its steps.
	Executions *executions.Filter
	// Groups are the cgroup.procs files of control groups that the leader joins, and Rlimits its limits.
	Groups  []int
	Rlimits []Rlimit
	Exited  func(Status)
	Left    func(count int) // between Exited and Ended, with the number of processes that outlive the leader, if there are any
	Ended   func(Report)
	// Over, if not nil, is called by Exit instead of Exited and Ended if a short search finds nothing left to end. It is for a
	// subreaper; elsewhere a search takes long.
	Over func(Status, Report)
}

// Leaders counts the leaders that a thread has started and whose trees have not ended.
func (f *Forest) Leaders(thread int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.lists[thread]; b != nil {
		return b.leaders
	}
	return 0
}

// Leave reports whether a thread that has started leaders can end: their trees have ended, and it will start no more. Where the trees
// cannot be told apart by thread, none can end.
func (f *Forest) Leave(thread int) bool {
	f.mu.Lock()
	b := f.lists[thread]
	leaves := b != nil && b != f.first && b.leaders == 0
	if leaves {
		delete(f.lists, thread)
	}
	f.mu.Unlock()
	if leaves {
		b.undisturbed(b.close)
	}
	return leaves
}

// Trees returns the trees that have not ended.
func (f *Forest) Trees() []*Tree {
	f.mu.Lock()
	defer f.mu.Unlock()
	trees := make([]*Tree, 0, len(f.trees))
	for _, t := range f.trees {
		trees = append(trees, t)
	}
	return trees
}

// ReapOrphans reaps the dead among the processes that came to a subreaper from its trees. It kills a living one if all
// trees that it may belong to have ended.
func (f *Forest) ReapOrphans() {
	for _, o := range f.orphans() {
		if len(o.trees) > 0 || o.survivor || o.Dead() || o.PID == 0 {
			continue
		}
		if err := procs.Send(o.Process, unix.SIGKILL); err != nil && err != unix.ESRCH {
			f.mu.Lock()
			f.survivors[o.PID] = struct{}{}
			f.mu.Unlock()
		}
	}
}

// orphans lists the processes that came to a subreaper, and reaps the dead.
func (f *Forest) orphans() []orphan {
	f.mu.Lock()
	lists := slices.Collect(maps.Values(f.lists))
	f.mu.Unlock()
	return f.look(lists...)
}

// orphansNear lists those that may belong to a tree.
func (f *Forest) orphansNear(t *Tree) []orphan { return f.look(t.list) }

// look lists the orphans in these lists, and then those in the first list: the children of processes that die meanwhile come
// to that one.
func (f *Forest) look(lists ...*childList) (found []orphan) {
	if !f.subreaper {
		return nil
	}
	for _, b := range lists {
		if b != f.first {
			found = append(found, b.walks.look(func() []orphan { return f.walk(b) })...)
		}
	}
	return append(found, f.first.walks.look(func() []orphan { return f.walk(f.first) })...)
}

// tryLook is look in one list. It gives up if another goroutine is looking.
func (f *Forest) tryLook(b *childList) (found []orphan, looked bool) {
	for _, b := range []*childList{b, f.first} {
		more, looked := b.walks.try(func() []orphan { return f.walk(b) })
		if !looked {
			return nil, false
		}
		found = append(found, more...)
		if b == f.first {
			break
		}
	}
	return found, true
}

// listOf returns the list of a thread that starts leaders. The kernel's list stays open.
func (f *Forest) listOf(thread int) *childList {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.subreaper || !procs.HasChildrenFiles() { // without the lists, the children of all threads are one list
		return f.first
	}
	b := f.lists[thread]
	if b == nil {
		b = newChildList(thread)
		f.lists[thread] = b
	}
	return b
}

// near reports whether a list may have members of the tree.
func (t *Tree) near(b *childList) bool { return b == t.forest.first || b == t.list }

// read returns what the limits of an orphan say now.
func (f *Forest) read(p procs.Process) marked {
	l, err := limitsOf(p.PID)
	if err != nil {
		return marked{start: p.Start, span: anywhere}
	}
	return marked{start: p.Start, read: true, span: f.marker.Marks().span(l)}
}

// match finds the trees that an orphan in a list may belong to. If the limits name a tree that is younger than the orphan, or whose
// leader another thread started, the orphan has raised its limits, and they say nothing.
func (f *Forest) match(b *childList, p procs.Process, s span) orphan {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := orphan{Process: p}
	_, o.survivor = f.survivors[p.PID]
	for _, t := range f.trees {
		if s.certain() && t.mark == s.first && (p.Start < t.earliest || !t.near(b)) {
			s = anywhere
		}
	}
	for _, t := range f.trees {
		if t.isolated == nil && t.near(b) && (t.mark == 0 || s.has(t.mark)) && p.Start >= t.earliest {
			o.trees = append(o.trees, t)
		}
	}
	o.certain = s.certain()
	return o
}

// forgetSurvivors forgets processes that no longer exist. A child of ours exists until a walk reaps it.
func (f *Forest) forgetSurvivors() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pid := range f.survivors {
		if !procs.Exists(pid) {
			delete(f.survivors, pid)
		}
	}
}

// signalGroup signals the leader's group, unless the tree has left the table: then the number may belong to another process.
func (f *Forest) signalGroup(t *Tree, sig syscall.Signal) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.trees[t.pid] != t {
		return unix.ESRCH
	}
	return syscall.Kill(-t.pid, sig)
}

// forget is called when the last member of a tree is gone. It removes the tree from the table and then reaps its leader, between two walks.
// So the pid is never free while the table names it.
func (f *Forest) forget(t *Tree) {
	t.list.undisturbed(func() {
		f.mu.Lock()
		delete(f.trees, t.pid)
		t.list.count(-1)
		f.mu.Unlock()
		t.reap()
	})
}

// EndAll refuses further starts, ends every tree, waits until all have reported, and then kills all other processes that are left
// below a subreaper. It returns the processes that did not die.
func (f *Forest) EndAll(grace time.Duration) []Survivor {
	f.forking.Lock()
	f.closed = true
	f.forking.Unlock()
	hanging := f.endUnborn(time.Now().Add(killWait))
	f.mu.Lock()
	trees := slices.Collect(maps.Keys(f.unsaid))
	f.mu.Unlock()
	for _, t := range trees {
		t.End(grace)
	}
	for _, t := range trees {
		t.wait(grace + killWait + busyWait + time.Second)
	}
	rest := &Tree{forest: f}
	rest.roots = func() ([]procs.Process, bool) { return living(f.orphans()) }
	return append(hanging, rest.kill(time.Now().Add(killWait))...)
}

// living returns the orphans that are alive, and reports whether none was dead.
func living(orphans []orphan) (live []procs.Process, settled bool) {
	settled = true
	for _, o := range orphans {
		if o.Dead() {
			settled = false
		} else {
			live = append(live, o.Process)
		}
	}
	return live, settled
}
