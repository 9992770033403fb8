package tree

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// members lists everything alive in the tree that one walk finds.
func (t *Tree) members() []procs.Process {
	found, _ := t.walk()
	return found
}

// walk lists everything alive in the tree, the leader included. If a member dies during the walk, its children pass to a subreaper
// in the tree, which is a member, too, or to us. So the walk begins with the leader and ends with the roots, and is settled if no
// such member died.
func (t *Tree) walk() (found []procs.Process, settled bool) {
	met := map[int]bool{}
	settled = true
	var visit func(p procs.Process)
	look := func(pid int) {
		switch p, err := procs.Read(pid); {
		case err != nil && procs.Exists(pid):
			settled = false
			met[pid] = true
			found = append(found, procs.Unseen(pid, err))
		case err != nil:
			settled = settled && procs.Gone(err)
		case !p.Dead():
			visit(p)
		}
	}
	visit = func(p procs.Process) {
		if met[p.PID] {
			return
		}
		met[p.PID] = true
		found = append(found, p)
		children, err := procs.Children(p.PID)
		settled = settled && (err == nil || procs.Gone(err))
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
func (t *Tree) orphans() ([]procs.Process, bool) {
	return living(slices.DeleteFunc(slices.Clone(t.forest.orphansNear(t)), func(o orphan) bool { return !o.falls(t) && o.PID != 0 }))
}

// related is for a process whose orphans go to init. It finds those that can still be recognised: the leader's session, to which its
// group belongs, and known members that have lost their parents since.
func (t *Tree) related() (found []procs.Process, settled bool) {
	scan := t.forest.scans.look(procs.AllSessions)
	t.forest.mu.Lock()
	known := map[int]bool{}
	for id := range t.seen {
		known[id.PID] = true
	}
	t.forest.mu.Unlock()
	settled = scan.Err == nil
	for _, candidate := range scan.All {
		if candidate.PID == t.pid || candidate.Session != t.pid && candidate.Session >= 0 && !known[candidate.PID] {
			continue
		}
		p, err := procs.Read(candidate.PID)
		settled = settled && !procs.Scarce(err)
		if err == nil && !p.Dead() && (p.Session == t.pid || t.knows(p)) {
			found = append(found, p)
		}
	}
	return found, settled
}

func (t *Tree) knows(p procs.Process) bool {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	_, known := t.seen[p.ID()]
	return known
}

// remember notes the members that the ending has found, to count them and to recognise them without their parents.
func (t *Tree) remember(members []procs.Process) {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	if !t.begun || len(members) == 0 {
		return
	}
	if t.seen == nil {
		t.seen = map[procs.Identity]struct{}{}
	}
	for _, p := range members {
		t.unsure = t.unsure || p.Hidden != nil
		if p.Start >= t.earliest { // an older stray has to be ended with this tree, but does not belong to it
			t.seen[p.ID()] = struct{}{}
		}
	}
}

// strays returns orphans that may belong to this tree or to others. It reports whether one of them has no other tree left.
func (t *Tree) strays() (named []Survivor, fallen bool) {
	for _, o := range t.forest.orphansNear(t) {
		if o.stray(t) {
			fallen = fallen || o.falls(t)
			named = append(named, Survivor{PID: o.PID, Name: o.Name,
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
	owners := map[procs.Identity]Mark{}
	t := &Tree{forest: NewForest()}
	t.roots = func() ([]procs.Process, bool) {
		var marked []procs.Process
		for _, p := range procs.All() {
			found, err := limitsOf(p.PID)
			switch {
			case err != nil || !all.gave(found):
			case p.Dead():
				if p.PPID == os.Getpid() { // we are init, or a subreaper, and the warden left it to us
					_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil)
				}
			default:
				owners[p.ID()] = ownerOf(trees, all.span(found))
				marked = append(marked, p)
			}
		}
		return marked, true
	}
	survivors := t.kill(time.Now().Add(killWait))
	reports := map[Mark]Report{}
	for id, mark := range owners {
		report := reports[mark]
		if i := slices.IndexFunc(survivors, func(s Survivor) bool { return s.PID == id.PID }); i >= 0 {
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
