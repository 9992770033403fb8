package tree

import "time"

// overNow reports the exit and the end together if one search finds nothing left and nobody has begun to end the tree. It gives up if
// another goroutine searches: the caller sees the exits of others, too.
func (t *Tree) overNow(status Status) (over bool) {
	if t.spec.Over == nil || !t.forest.concluding.TryLock() {
		return false
	}
	if orphans, looked := t.forest.tryLook(t.list); looked {
		over = t.endsWithout(orphans)
	}
	t.forest.concluding.Unlock()
	if over {
		close(t.counted)
		t.spec.Over(status, t.treeReport(nil, nil))
		t.finished()
	}
	return over
}

// endsWithout takes a tree off the table if none of the orphans can belong to it, and nobody has begun to end it. It is called
// with concluding held.
func (t *Tree) endsWithout(orphans []orphan) bool {
	for _, o := range orphans {
		if o.PID == 0 || o.may(t) {
			return false
		}
	}
	if !t.claim(time.Time{}) {
		return false
	}
	t.forest.forget(t)
	return true
}
