package tree

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

func TestAnOrphanBelongsWhereItsLimitsSay(t *testing.T) {
	f := NewForest()
	trees := map[Mark]*Tree{}
	for i, mark := range []Mark{3, 5, 9, 0} { // the last one has no mark
		trees[mark] = &Tree{forest: f, pid: 100 + i, mark: mark, earliest: 10 * uint64(mark)}
		f.trees[100+i] = trees[mark]
	}
	f.survivors[7] = struct{}{}
	for _, c := range []struct {
		name    string
		start   uint64
		span    span
		trees   []Mark
		certain bool
	}{
		{"its own", 60, span{5, 5}, []Mark{0, 5}, true},
		{"older than its own", 40, span{5, 5}, []Mark{0, 3}, false},
		{"between two", 200, span{4, 8}, []Mark{0, 5}, false},
		{"anywhere", 200, anywhere, []Mark{0, 3, 5, 9}, false},
		{"a tree that has ended", 200, span{7, 7}, []Mark{0}, true},
	} {
		o := f.match(nil, procs.Process{PID: 6, Start: c.start, State: 'S'}, c.span)
		for mark, tree := range trees {
			if o.may(tree) != slices.Contains(c.trees, mark) {
				t.Errorf("%s: tree %d may: %v", c.name, mark, o.may(tree))
			}
		}
		if o.certain != c.certain || o.survivor {
			t.Errorf("%s: %+v", c.name, o)
		}
	}
	delete(f.trees, 103)
	alone := f.match(nil, procs.Process{PID: 6, Start: 200, State: 'S'}, span{4, 8})
	if !alone.falls(trees[5]) || !alone.stray(trees[5]) || alone.falls(trees[3]) || alone.stray(trees[3]) {
		t.Errorf("the only one left: %+v", alone)
	}
	named := f.match(nil, procs.Process{PID: 7, Start: 200, State: 'S'}, span{4, 8})
	if named.falls(trees[5]) || named.stray(trees[5]) {
		t.Errorf("a survivor that was named before: %+v", named)
	}
}

// adopt makes a forest of a subreaper that has one orphan: a child of this thread.
func adopt(t *testing.T) (*Forest, *exec.Cmd) {
	t.Helper()
	f := newTestSubreaper(t)
	orphan := exec.Command("sleep", "1000")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	return f, orphan
}

func TestTheEndOfAForestKillsWhatIsLeftBelowIt(t *testing.T) {
	f, orphan := adopt(t)
	f.survivors[orphan.Process.Pid] = struct{}{} // so it belongs to no tree, and is not killed earlier
	if left := f.EndAll(0); len(left) > 0 {
		t.Error(left)
	}
	if p, err := procs.Read(orphan.Process.Pid); err == nil && !p.Dead() {
		t.Error("it lives")
	}
	_ = orphan.Process.Kill()
	_ = orphan.Wait()
}

func TestWhatOutlivedAllItsTreesIsKilled(t *testing.T) {
	f, orphan := adopt(t)
	f.trees[1] = &Tree{forest: f, pid: 1}
	f.ReapOrphans()
	if p, err := procs.Read(orphan.Process.Pid); err != nil || p.Dead() {
		t.Fatalf("it was killed though its tree lives: %+v, %v", p, err)
	}
	delete(f.trees, 1)
	f.ReapOrphans()
	if err := orphan.Wait(); err == nil || orphan.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Error(err)
	}
	if len(f.survivors) != 0 {
		t.Error(f.survivors)
	}
}
