package warden

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// crowd is how many live leaders a thread may have before another thread starts the next ones. The kernel keeps a list of
// children for each thread, and each exit reads the list of the thread that started the leader.
const crowd = 64

// bearer is a thread that starts leaders. It lives until the process ends, because leaders die with the thread that started
// them. It is never the first thread of the process: the orphans come to that one, and exits should find no leaders among them.
type bearer struct {
	thread int
	turn   chan struct{} // capacity 1
}

// startBearing starts the first bearer.
func (w *warden) startBearing() {
	b := w.newBearer()
	b.turn <- struct{}{}
}

// newBearer starts a thread that waits for its turn. The bearer whose turn it is reads requests and sees leaders exit, including
// those of other bearers. It owns the state that this needs.
func (w *warden) newBearer() *bearer {
	b := &bearer{turn: make(chan struct{}, 1)}
	w.bearers = append(w.bearers, b)
	go w.takeTurns(b)
	return b
}

func (w *warden) takeTurns(b *bearer) {
	runtime.LockOSThread()
	b.thread = unix.Gettid()
	// A command can inherit the signal mask of the thread that starts it. The host may have been started with signals blocked.
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
	for range b.turn {
		for w.forest.Leaders(b.thread) < crowd {
			w.serve()
		}
		w.successor().turn <- struct{}{}
	}
}

// successor returns a bearer that has few leaders left, or else a new one. If at most n leaders live at once, there are at most
// n/(crowd/2) + 1 bearers.
func (w *warden) successor() *bearer {
	for _, b := range w.bearers {
		if w.forest.Leaders(b.thread) <= crowd/2 {
			return b
		}
	}
	return w.newBearer()
}
