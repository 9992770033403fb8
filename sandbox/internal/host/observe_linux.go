package host

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/inspect"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// observation is what is known of one tree. The locks are for callers that ask at once.
type observation struct {
	reading   sync.Mutex
	readers   inspect.Readers
	listening sync.Mutex
	listeners inspect.Listeners
}

func (o *observation) reader(tree inspect.Tree, file ptyio.InputFile) (*ptyio.Reader, error) {
	o.reading.Lock()
	defer o.reading.Unlock()
	o.readers.Tree = tree
	return o.readers.Look(file)
}

func (o *observation) findListeners(tree inspect.Tree) ([]ptyio.Listener, error) {
	o.listening.Lock()
	defer o.listening.Unlock()
	o.listeners.Tree = tree
	return o.listeners.Look()
}

func (l *leader) tree() inspect.Tree {
	return inspect.Tree{Leader: l.pid, Parent: l.process.pid, Orphans: l.process.orphans, Network: l.process.asks(l.plan)}
}

// asks returns the socket that asks who listens in the network of a plan; nil if there is none.
func (p *process) asks(plan uint64) *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sockets := p.listeners[plan]; sockets != nil {
		return sockets.asks
	}
	return nil
}

func (l directLeader) tree() inspect.Tree { return inspect.Tree{Leader: l.PID(), Parent: l.parent} }

// Reader implements ptyio.Observer. This process looks itself: it is an ancestor of all members.
func (l *leader) Reader(file ptyio.InputFile) (*ptyio.Reader, error) {
	return l.observed.reader(l.tree(), file)
}

// Listeners implements ptyio.Observer.
func (l *leader) Listeners() ([]ptyio.Listener, error) { return l.observed.findListeners(l.tree()) }

// Reader implements ptyio.Observer. Orphans go to another process, and are not looked at.
func (l directLeader) Reader(file ptyio.InputFile) (*ptyio.Reader, error) {
	return l.observed.reader(l.tree(), file)
}

// Listeners implements ptyio.Observer.
func (l directLeader) Listeners() ([]ptyio.Listener, error) {
	return l.observed.findListeners(l.tree())
}

// orphanList is what a look at a warden's children has found. Those that wait for input share it, because a warden may have thousands of
// children.
type orphanList struct {
	pids []int
	next time.Time // when it is to be made again
}

// shareOf bounds the looks at a warden's children: they take at most one part in so many of the time, unless that would make the list older
// than oldestList. On a busy machine a look may only have waited for a processor.
const (
	shareOf    = 200
	oldestList = time.Second
)

// orphans returns the warden's children that are neither leaders nor the process 1 of one: daemons of trees, of whichever tree.
func (p *process) orphans() []int {
	p.looking.Lock()
	defer p.looking.Unlock()
	if began := time.Now(); !began.Before(p.adopted.next) {
		p.adopted.pids = p.findOrphans()
		p.adopted.next = began.Add(min(shareOf*time.Since(began), oldestList))
	}
	return p.adopted.pids
}

func (p *process) findOrphans() []int {
	children, _ := procs.Children(p.pid)
	p.mu.Lock()
	leaders := make(map[int]bool, len(p.leaders))
	for _, l := range p.leaders {
		leaders[l.pid] = true
	}
	p.mu.Unlock()
	return slices.DeleteFunc(children, func(pid int) bool {
		if leaders[pid] {
			return true
		}
		below, _ := procs.Children(pid)
		return slices.ContainsFunc(below, func(child int) bool { return leaders[child] })
	})
}
