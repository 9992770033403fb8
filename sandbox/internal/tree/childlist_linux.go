package tree

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// childList is the children of one thread of a subreaper. The kernel keeps a list for each thread. Orphans come to the first thread
// of the process. The list of another thread has the leaders that this thread started, and the processes that those start with
// CLONE_PARENT. So a search for one tree reads two lists: that of the first thread, and that of the thread that started its leader.
type childList struct {
	thread int
	file   int // the kernel's list, kept open; -1 where it could not be opened

	walks shared[[]orphan]
	known map[int]marked // what the limits of the orphans say; only a walk touches it

	leaders int // guarded by Forest.mu
}

func newChildList(thread int) *childList {
	b := &childList{thread: thread, file: -1}
	if fd, err := unix.Open(b.path(), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		b.file = fd
	}
	return b
}

// close is called when the thread is about to end.
func (b *childList) close() {
	if b.file >= 0 {
		_ = unix.Close(b.file)
	}
	b.file = -1
}

// undisturbed calls do while no walk compares this list with the table of leaders. A walk would take a child that the kernel
// already knows, but the table does not, for an orphan. On a nil list, undisturbed just calls do.
func (b *childList) undisturbed(do func()) {
	if b == nil {
		do()
		return
	}
	b.walks.between(do)
}

func (b *childList) path() string { return "/proc/self/task/" + strconv.Itoa(b.thread) + "/children" }

// count counts a leader that enters or leaves the table.
func (b *childList) count(change int) {
	if b != nil {
		b.leaders += change
	}
}

// list lists the children, zombies included. It needs CONFIG_PROC_CHILDREN; without it, all of /proc is read.
func (b *childList) list() ([]int, error) {
	if !procs.HasChildrenFiles() {
		return procs.ChildrenByScan(os.Getpid()), nil
	}
	var room [1024]byte
	var text []byte
	var err error
	if b.file >= 0 {
		text, err = procs.ReadWhole(b.file, room[:])
	} else {
		text, err = procs.ReadFile(b.path(), room[:])
	}
	if err != nil && procs.Gone(err) { // the thread has ended, and its children have passed to the first one
		return nil, nil
	}
	return procs.AppendPIDs(nil, text), err
}

// walk lists the orphans among the children of a thread, and reaps the dead.
func (f *Forest) walk(b *childList) []orphan {
	children, err := b.list()
	if err != nil { // nothing is known, so every child must be examined again
		return []orphan{{Process: procs.Process{State: 'X'}}}
	}
	var found []orphan
	known := make(map[int]marked, len(b.known))
	for _, pid := range f.unled(children) {
		p, err := procs.Read(pid)
		if err != nil {
			found = append(found, f.unreadable(b, pid, err, known))
			continue
		}
		m := b.known[pid]
		if m.start != p.Start || !m.read {
			m = f.read(p)
		}
		if p.Dead() {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		} else {
			known[pid] = m
		}
		found = append(found, f.match(b, p, m.span))
	}
	b.known = known
	f.forgetSurvivors()
	return found
}

// unled returns the children that are not leaders.
func (f *Forest) unled(children []int) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := children[:0]
	for _, pid := range children {
		if f.trees[pid] == nil {
			rest = append(rest, pid)
		}
	}
	return rest
}

// unreadable stands for a child about which /proc says nothing. The child counts as begun when it is first seen. If it is dead, it
// is reaped.
func (f *Forest) unreadable(b *childList, pid int, why error, known map[int]marked) orphan {
	if reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped != 0 {
		return orphan{Process: procs.Process{State: 'X'}}
	}
	m, met := b.known[pid]
	if !met {
		m = marked{start: procs.BootTicks(), span: anywhere}
	}
	known[pid] = m
	p := procs.Unseen(pid, why)
	p.Start = m.start
	return f.match(b, p, m.span)
}
