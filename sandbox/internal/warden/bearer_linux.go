package warden

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// crowd is how many live leaders a thread may have before another thread bears the next ones. The kernel has a list of children
// for each thread, and each exit reads that of the thread that bore the leader.
const crowd = 64

// bearer is a thread that bears leaders. It lives until the process ends, because leaders die with the thread that bore them. It
// is never the first thread of the process, to which orphans come, so that exits find no leaders among the orphans.
type bearer struct {
	thread int
	turn   chan struct{} // capacity 1
}

// startBearing starts the first bearer.
func (w *warden) startBearing() {
	b := w.newBearer()
	b.turn <- struct{}{}
}

// newBearer starts a thread that waits for its turn. Whose turn it is reads requests and sees leaders exit, those of others as well,
// and owns all that this needs.
func (w *warden) newBearer() *bearer {
	b := &bearer{turn: make(chan struct{}, 1)}
	w.bearers = append(w.bearers, b)
	go w.takeTurns(b)
	return b
}

func (w *warden) takeTurns(b *bearer) {
	runtime.LockOSThread()
	b.thread = unix.Gettid()
	// A command may begin with the mask of the thread that bears it. The host may have been started with signals blocked.
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
	for range b.turn {
		for w.forest.Leaders(b.thread) < crowd {
			w.serve()
		}
		w.successor().turn <- struct{}{}
	}
}

// successor returns a bearer that has few leaders left, or else a new one. So there are at most as many as half crowds of leaders
// have lived at once, and one more.
func (w *warden) successor() *bearer {
	for _, b := range w.bearers {
		if w.forest.Leaders(b.thread) <= crowd/2 {
			return b
		}
	}
	return w.newBearer()
}
