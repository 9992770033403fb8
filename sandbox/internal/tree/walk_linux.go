package tree

import (
	"slices"
	"strconv"
	"time"

	"github.com/execbus/execbus/messages"
)

// members walks the tree and lists everything alive in it, the leader included.
func (t *Tree) members() []process {
	var found []process
	met := map[int]bool{}
	var visit func(pid int)
	visit = func(pid int) {
		if met[pid] {
			return
		}
		met[pid] = true
		p, err := readProcess(pid)
		if err != nil || p.dead() {
			return
		}
		found = append(found, p)
		for _, child := range childrenOf(pid) {
			visit(child)
		}
	}
	if t.pid != 0 && !t.leaderDead() {
		visit(t.pid)
	}
	for _, p := range t.roots() {
		visit(p.pid)
	}
	t.remember(found)
	return found
}

func (t *Tree) leaderDead() bool {
	select {
	case <-t.exited:
		return true
	default:
		return false
	}
}

// orphans are those of the forest's orphans that belong to this tree.
func (t *Tree) orphans() []process {
	var mine []process
	for _, orphan := range t.forest.orphans() {
		if owner, alone := t.forest.owner(orphan); owner == t || owner == nil && alone {
			mine = append(mine, orphan)
		}
	}
	return mine
}

// related finds, where orphans go to init, what can still be recognised: the leader's session and group, and members met
// before that lost their parents since.
func (t *Tree) related() []process {
	all := allProcesses()
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	var found []process
	for _, p := range all {
		_, known := t.seen[p.identity()]
		if p.pid != t.pid && !p.dead() && (p.session == t.pid || p.pgrp == t.pid || known) {
			found = append(found, p)
		}
	}
	return found
}

// remember notes whom the ending has met, to count them and to recognise them without their parents.
func (t *Tree) remember(members []process) {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	if !t.begun || len(members) == 0 {
		return
	}
	if t.seen == nil {
		t.seen = map[identity]struct{}{}
	}
	for _, p := range members {
		t.seen[p.identity()] = struct{}{}
	}
}

// strays are orphans that no mark assigns to a tree and that this tree may have begotten.
func (t *Tree) strays() []messages.Survivor {
	var named []messages.Survivor
	for _, orphan := range t.forest.orphans() {
		if owner, alone := t.forest.owner(orphan); owner == nil && !alone && orphan.start >= t.start {
			named = append(named, messages.Survivor{PID: orphan.pid, Name: orphan.name,
				Why: "has shed the mark of its tree and may belong to any of " + strconv.Itoa(len(t.forest.Trees())) +
					" running commands; it is ended with the last of them"})
		}
	}
	return named
}

// EndMarked finds, in the whole system, what carries the marks of trees whose warden is gone, kills it, and reports for
// each mark. It cannot find a process that has shed its mark.
func EndMarked(marks []Mark) map[Mark]messages.TreeReport {
	owners := map[identity]Mark{}
	t := &Tree{forest: NewForest()}
	t.roots = func() []process {
		var marked []process
		for _, p := range allProcesses() {
			if p.dead() {
				continue
			}
			found := markOf(p.pid)
			if i := slices.IndexFunc(marks, func(m Mark) bool { return m.Same(found) }); i >= 0 {
				owners[p.identity()] = marks[i]
				marked = append(marked, p)
			}
		}
		return marked
	}
	survivors := t.kill(time.Now().Add(killWait))
	reports := map[Mark]messages.TreeReport{}
	for id, mark := range owners {
		report := reports[mark]
		if i := slices.IndexFunc(survivors, func(s messages.Survivor) bool { return s.PID == id.pid }); i >= 0 {
			report.Survivors = append(report.Survivors, survivors[i])
		} else {
			report.Ended++
		}
		reports[mark] = report
	}
	return reports
}
