package session

import (
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// teardown is a tree that is being ended. The next command must not find it alive, so it holds back one start that comes
// after its ending began, until it is gone.
type teardown struct {
	began time.Time // zero: it is not being ended
	held  *entry    // the start that it holds back
	done  bool      // it has held one back
}

// unwanted notes that somebody has asked for the end of a process.
func (v *supervisor) unwanted(e *entry) {
	e.unwanted = true
	v.endsNow(e)
}

// endsNow notes that a process's tree is being ended.
func (v *supervisor) endsNow(e *entry) {
	if e.teardown.began.IsZero() {
		e.teardown.began = time.Now()
		v.endings[e] = struct{}{}
	}
}

// holdBack lets a process that is about to start wait for a tree that is being ended. It reports whether there is one.
func (v *supervisor) holdBack(e *entry) bool {
	if e.wants.IsZero() {
		e.wants = time.Now()
	}
	for other := range v.endings {
		a := &other.teardown
		left := v.Teardown - time.Since(a.began)
		if a.began.IsZero() || a.done || other.tree != nil || left <= 0 {
			delete(v.endings, other)
			continue
		}
		if other == e || a.began.After(e.wants) {
			continue
		}
		a.held, a.done = e, true
		v.ctx.Send(e.actor, protocol.StartWaits{What: "for the processes of an earlier command, which are being ended"})
		v.ctx.After(left, teardownOver{other.info.Process})
		return true
	}
	return false
}

// letGo releases the start that a tree has held back.
func (v *supervisor) letGo(e *entry) {
	if held := e.teardown.held; held != nil {
		e.teardown.held = nil
		v.wantSlot(held.info.Process)
	}
}

func (v *supervisor) teardownOver(id messages.ProcessID) {
	if e := v.entries[id]; e != nil {
		v.letGo(e)
	}
}
