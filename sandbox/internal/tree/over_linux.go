package tree

import (
	"time"
)

// overWait is how long the report of an exit may wait for the search that shows whether the tree has ended, too. A search among
// many orphans takes long, and earlier requests for a search come first.
const overWait = 5 * time.Millisecond

// overNow is overAtOnce for a caller that must not wait for the searches of others.
func (t *Tree) overNow(status Status) (over bool) {
	if t.spec.Over == nil || !t.forest.concluding.TryLock() {
		return false
	}
	if orphans, looked := t.forest.tryLook(t.brood); looked {
		over = t.endsWithout(orphans)
	}
	t.forest.concluding.Unlock()
	if over {
		t.over(status)
	}
	return over
}

// over reports the exit and the end together.
func (t *Tree) over(status Status) {
	close(t.counted)
	t.spec.Over(status, t.treeReport(nil, nil))
	t.finished()
}

// overAtOnce reports the exit and the end together if one search finds nothing left and nobody has begun to end the tree. If
// something is left, or the search takes long, it reports the exit alone.
func (t *Tree) overAtOnce(status Status) (over bool) {
	said := make(chan struct{})
	late := time.AfterFunc(overWait, func() {
		t.spec.Exited(status)
		close(said)
	})
	over = t.leftNothing()
	soon := late.Stop()
	if !soon {
		<-said
	}
	switch {
	case over && soon:
		t.over(status)
	case over:
		close(t.counted)
		t.spec.Ended(t.treeReport(nil, nil))
		t.finished()
	case soon:
		t.spec.Exited(status)
	}
	return over
}

// leftNothing takes a tree off the table of a subreaper if no orphan can belong to it.
func (t *Tree) leftNothing() bool {
	t.forest.concluding.Lock()
	defer t.forest.concluding.Unlock()
	return t.endsWithout(t.forest.orphansNear(t))
}

// endsWithout takes a tree off the table if none of the orphans can belong to it, and nobody has begun to end it. It is called
// with concluding held.
func (t *Tree) endsWithout(orphans []orphan) bool {
	for _, o := range orphans {
		if o.pid == 0 || o.may(t) {
			return false
		}
	}
	if !t.claim(time.Time{}) {
		return false
	}
	t.forest.forget(t)
	return true
}
