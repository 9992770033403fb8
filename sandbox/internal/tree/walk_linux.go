package tree

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// members lists everything alive in the tree that one walk finds.
func (t *Tree) members() []process {
	found, _ := t.walk()
	return found
}

// walk lists everything alive in the tree, the leader included. If a member dies during the walk, its children pass to a subreaper
// in the tree, which is a member, too, or to us. So the walk begins with the leader and ends with the roots, and is settled if no
// such member died.
func (t *Tree) walk() (found []process, settled bool) {
	met := map[int]bool{}
	settled = true
	var visit func(p process)
	look := func(pid int) {
		switch p, err := readProcess(pid); {
		case err != nil && exists(pid):
			settled = false
			met[pid] = true
			found = append(found, hiddenProcess(pid, err))
		case err != nil:
			settled = settled && gone(err)
		case !p.dead():
			visit(p)
		}
	}
	visit = func(p process) {
		if met[p.pid] {
			return
		}
		met[p.pid] = true
		found = append(found, p)
		children, err := childrenOf(p.pid)
		settled = settled && (err == nil || gone(err))
		for _, child := range children {
			look(child)
		}
	}
	if t.pid != 0 && (t.isolated != nil || !t.leaderDead()) {
		look(t.pid)
	}
	roots, steady := t.roots()
	for _, p := range roots {
		visit(p)
	}
	t.remember(found)
	return found, settled && steady
}

// led reports whether the leader lives and the other members need no attention meanwhile. They do need it if orphans do not become
// our children: then we recognise only members that we saw before they lost their parents.
func (t *Tree) led() bool { return t.forest.subreaper && t.pid != 0 && !t.leaderDead() }

// deserted reports whether no member lives.
func (t *Tree) deserted() bool {
	if t.led() {
		return false
	}
	if t.isolated != nil {
		return t.firstDead()
	}
	confirmed := t.forest.subreaper // a scan of all of /proc may miss processes that are forked meanwhile
	for range maxPasses {
		found, settled := t.walk()
		switch {
		case len(found) > 0:
			return false
		case settled && confirmed:
			return true
		}
		confirmed = confirmed || settled
	}
	return false
}

func (t *Tree) leaderDead() bool {
	select {
	case <-t.exited:
		return true
	default:
		return false
	}
}

// orphans returns those of the forest's orphans that this tree has to end.
func (t *Tree) orphans() ([]process, bool) {
	return living(slices.DeleteFunc(slices.Clone(t.forest.orphansNear(t)), func(o orphan) bool { return !o.falls(t) && o.pid != 0 }))
}

// related is for a process whose orphans go to init. It finds those that can still be recognised: the leader's session, to which its
// group belongs, and known members that have lost their parents since.
func (t *Tree) related() (found []process, settled bool) {
	scan := t.forest.scans.look(allSessions)
	t.forest.mu.Lock()
	known := map[int]bool{}
	for id := range t.seen {
		known[id.pid] = true
	}
	t.forest.mu.Unlock()
	settled = scan.err == nil
	for _, candidate := range scan.all {
		if candidate.pid == t.pid || candidate.session != t.pid && candidate.session >= 0 && !known[candidate.pid] {
			continue
		}
		p, err := readProcess(candidate.pid)
		settled = settled && !scarce(err)
		if err == nil && !p.dead() && (p.session == t.pid || t.knows(p)) {
			found = append(found, p)
		}
	}
	return found, settled
}

func (t *Tree) knows(p process) bool {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	_, known := t.seen[p.identity()]
	return known
}

// remember notes the members that the ending has found, to count them and to recognise them without their parents.
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
		t.unsure = t.unsure || p.hidden != nil
		if p.start >= t.earliest { // an older stray has to be ended with this tree, but does not belong to it
			t.seen[p.identity()] = struct{}{}
		}
	}
}

// strays returns orphans that may belong to this tree or to others. It reports whether one of them has no other tree left.
func (t *Tree) strays() (named []Survivor, fallen bool) {
	for _, o := range t.forest.orphansNear(t) {
		if o.stray(t) {
			fallen = fallen || o.falls(t)
			named = append(named, Survivor{PID: o.pid, Name: o.name,
				Why: "has shed the mark of its tree and may belong to any of " + strconv.Itoa(len(o.trees)) +
					" running commands; it is ended with the last of them"})
		}
	}
	return named, fallen
}

// EndMarked finds, in the whole system, the processes that carry a mark of a dead warden, and kills them. It reports for
// each of the given trees, and for all others together under zero. It cannot find a process that has changed both of its
// limits.
func EndMarked(all Marks, trees []Mark) map[Mark]Report {
	if ours, err := limitsOf(os.Getpid()); err == nil && all.gave(ours) { // this process carries such a mark, too
		return nil
	}
	owners := map[identity]Mark{}
	t := &Tree{forest: NewForest()}
	t.roots = func() ([]process, bool) {
		var marked []process
		for _, p := range allProcesses() {
			found, err := limitsOf(p.pid)
			switch {
			case err != nil || !all.gave(found):
			case p.dead():
				if p.ppid == os.Getpid() { // we are init, or a subreaper, and the warden left it to us
					_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
				}
			default:
				owners[p.identity()] = ownerOf(trees, all.span(found))
				marked = append(marked, p)
			}
		}
		return marked, true
	}
	survivors := t.kill(time.Now().Add(killWait))
	reports := map[Mark]Report{}
	for id, mark := range owners {
		report := reports[mark]
		if i := slices.IndexFunc(survivors, func(s Survivor) bool { return s.PID == id.pid }); i >= 0 {
			report.Survivors = append(report.Survivors, survivors[i])
		} else {
			report.Ended++
		}
		reports[mark] = report
	}
	return reports
}

func ownerOf(trees []Mark, found span) Mark {
	if !found.certain() || !slices.Contains(trees, found.first) {
		return 0
	}
	return found.first
}
