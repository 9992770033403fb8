package inspect

import (
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// Tree says where to look for members.
type Tree struct {
	Leader int // the leader's pid, which is also the number of its session
	// Orphans returns the children of the leader's parent that may be members, with other trees left out. Nil means that there are none.
	// The parent of an isolated leader is process 1 of its namespace: all its children are members, and Orphans is not asked.
	Orphans func() []int
	Parent  int // of the leader, unless it is isolated
}

// maxMembers bounds the processes of one look.
const maxMembers = 1024

// each calls do with every living member until it returns false: the leader, its descendants, and then the orphans with theirs.
func (t Tree) each(do func(p procs.Process) bool) error {
	leader, err := procs.Read(t.Leader)
	switch {
	case err != nil && procs.Exists(t.Leader):
		return err
	case err != nil: // it has ended
		return nil
	}
	met := map[int]bool{t.Leader: true}
	if !t.below([]procs.Process{leader}, met, do) {
		return nil
	}
	var orphans []procs.Process
	for _, pid := range t.orphans(leader.PPID) {
		if p, err := procs.Read(pid); err == nil && !met[pid] {
			met[pid] = true
			orphans = append(orphans, p)
		}
	}
	t.below(orphans, met, do)
	return nil
}

func (t Tree) orphans(parent int) []int {
	if parent == t.Parent {
		if t.Orphans == nil {
			return nil
		}
		return t.Orphans()
	}
	children, _ := procs.Children(parent)
	return children
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
			if child, err := procs.Read(pid); err == nil {
				queue = append(queue, child)
			}
		}
	}
	return true
}
