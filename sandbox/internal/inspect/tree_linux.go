package inspect

import (
	"os"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// Tree says where to look for members.
type Tree struct {
	Leader int // the leader's pid, which is also the number of its session
	// Orphans returns the children of the leader's parent that may be members, with other trees left out. Nil means that there are none.
	// The parent of an isolated leader is process 1 of its namespace: all its children are members, and Orphans is not asked.
	Orphans func() []int
	Parent  int // of the leader, unless it is isolated
	// Network is a netlink socket for sock_diag that was made in the leader's network namespace. Nil means that there is none, or that the
	// namespace may be the caller's.
	Network *os.File
}

// maxMembers bounds the processes of one look.
const maxMembers = 1024

// each calls do with every living member until it returns false: the leader, its descendants, and then the orphans with theirs. Of one
// that the system hides it is only known that it exists. It returns what Orphans has returned; nil if that was not asked.
func (t Tree) each(do func(p procs.Process) bool) (shared []int, err error) {
	leader, err := procs.Read(t.Leader)
	switch {
	case err != nil && procs.Exists(t.Leader):
		return nil, shown(err)
	case err != nil: // it has ended
		return nil, nil
	}
	met := map[int]bool{t.Leader: true}
	if !t.below([]procs.Process{leader}, met, do) {
		return nil, nil
	}
	var pids []int
	switch {
	case leader.PPID != t.Parent:
		pids, _ = procs.Children(leader.PPID)
	case t.Orphans != nil:
		pids = t.Orphans()
		shared = append([]int{}, pids...)
	}
	var orphans []procs.Process
	for _, pid := range pids {
		if p, err := procs.Read(pid); err == nil && !met[pid] {
			met[pid] = true
			orphans = append(orphans, p)
		}
	}
	t.below(orphans, met, do)
	return shared, nil
}

// below walks down from some processes, breadth first.
func (t Tree) below(queue []procs.Process, met map[int]bool, do func(p procs.Process) bool) bool {
	for ; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if p.Dead() {
			continue
		}
		if !do(p) {
			return false
		}
		children, _ := childrenOf(p)
		for _, pid := range children {
			if met[pid] || len(met) >= maxMembers {
				continue
			}
			met[pid] = true
			child, err := procs.Read(pid)
			switch {
			case err == nil:
				queue = append(queue, child)
			case procs.Exists(pid):
				queue = append(queue, procs.Unseen(pid, err))
			}
		}
	}
	return true
}
