package session

import (
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
)

// teardowns are the trees of a session that are being ended. The next command must not find such a tree alive, so it holds back one start
// that comes after its ending began, until it is gone.
type teardowns struct {
	patience time.Duration       // from the moment when the ending begins
	ending   map[*entry]struct{} // that may hold a start back
}

// teardown is the part of a process in that.
type teardown struct {
	began  time.Time // when the ending of its tree began; zero: it is not being ended
	held   *entry    // the start that it holds back
	done   bool      // it has held one back
	wanted time.Time // when it wanted to start itself
}

// begin notes that the tree of a process is being ended.
func (t *teardowns) begin(e *entry) {
	if e.teardown.began.IsZero() {
		e.teardown.began = time.Now()
		t.ending[e] = struct{}{}
	}
}

// restart notes that a process has another tree.
func (t *teardowns) restart(e *entry) { e.teardown.began = time.Time{} }

// hold lets a process that is about to start wait for a tree that is being ended. It has no effects if there is none.
func (t *teardowns) hold(e *entry) []effect {
	if e.teardown.wanted.IsZero() {
		e.teardown.wanted = time.Now()
	}
	for other := range t.ending {
		a := &other.teardown
		left := t.patience - time.Since(a.began)
		if a.began.IsZero() || a.done || other.attempt.tree != nil || left <= 0 {
			delete(t.ending, other)
			continue
		}
		if other == e || a.began.After(e.teardown.wanted) {
			continue
		}
		a.held, a.done = e, true
		return []effect{{entry: e, message: protocol.StartWaits{What: "for the processes of an earlier command, which are being ended"}},
			{message: teardownOver{other}, after: left}}
	}
	return nil
}

// release lets the start go on that a tree has held back. The tree holds back no other.
func (t *teardowns) release(e *entry) []effect {
	delete(t.ending, e)
	held := e.teardown.held
	if held == nil {
		return nil
	}
	e.teardown.held = nil
	return []effect{{message: startReleased{held}}}
}
