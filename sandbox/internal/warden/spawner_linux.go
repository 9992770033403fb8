package warden

import (
	"errors"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// crowd is how many live leaders a thread may have before another thread starts the next ones. The kernel keeps a list of
// children for each thread, and each exit reads the list of the thread that started the leader.
const crowd = 64

// spawner is a thread that starts leaders: a spawning thread. It lives at least as long as these, because leaders die with the thread
// that started them. It is never the first thread of the process: the orphans come to that one, and exits should find no leaders among
// them. It must never be in a Landlock domain: its children share its memory until they execute their programs, and a command in the
// same domain could reach them.
type spawner struct {
	filter filter
	secret birth.Secret // of the filter
	thread int
	token  chan struct{} // capacity 1
}

// filter is the filter that a thread has and its children inherit. The zero filter is none.
type filter struct {
	on   bool
	kind seccomp.Kind
}

// startSpawning starts the first spawning thread.
func (w *warden) startSpawning() error {
	b, err := w.newSpawner(filter{})
	if err == nil {
		b.token <- struct{}{}
	}
	return err
}

// newSpawner starts a thread that waits for the token. The thread that serves reads requests and sees leaders exit, including
// those of other spawning threads. It owns the state that this needs.
func (w *warden) newSpawner(f filter) (*spawner, error) {
	b := &spawner{filter: f, token: make(chan struct{}, 1)}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := b.prepare()
		ready <- err
		if err == nil {
			w.serve(b)
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	w.spawners = append(w.spawners, b)
	return b, nil
}

// prepare gives this thread the state that its children inherit. After an error the thread ends.
func (b *spawner) prepare() (err error) {
	b.thread = unix.Gettid()
	// A command can inherit the signal mask of the thread that starts it. The host may have been started with signals blocked.
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
	if b.filter.on {
		b.secret, err = confine.Filter(b.filter.kind)
	}
	return err
}

// serve serves until a leader has to be started that needs another thread. So a host that starts one command after
// another under the same policy is served by one thread.
func (w *warden) serve(b *spawner) {
	for range b.token {
		next := b
		for next == b {
			next = w.step(b)
		}
		next.token <- struct{}{}
	}
}

// step starts the next leader, or else waits for something else to do and does it. It returns the spawning thread that serves next.
func (w *warden) step(b *spawner) *spawner {
	if len(w.births) == 0 {
		w.read()
		return b
	}
	s := w.births[0]
	next, err := w.fitting(b, w.plans.needs(s.spec))
	if err == nil && next != b {
		return next
	}
	w.births = w.births[1:]
	if err != nil {
		w.refuse(s, err)
	} else {
		w.start(b, s)
	}
	return b
}

// yieldAfter is half the time for which Go lets a goroutine run.
const yieldAfter = 5 * time.Millisecond

// yield passes through Go's scheduler now and then. The spawning thread waits in system calls, so it would hardly ever do that by
// itself. But from a goroutine that has not done it for 10 ms, Go's monitor takes the processor in each system call, and it then looks
// for one every 75 µs. That wakes a thread several times during each birth.
func (w *warden) yield() {
	if now := time.Now(); now.Sub(w.yielded) >= yieldAfter {
		runtime.Gosched()
		w.yielded = now
	}
}

// fitting returns a spawning thread for the next leader: b if possible, otherwise one that has few leaders left, or else a new one. If
// at most n leaders live at once, there are at most n/(crowd/2) + 1 spawning threads for each of the dozen filters.
func (w *warden) fitting(b *spawner, f filter) (*spawner, error) {
	if b.filter == f && w.forest.Leaders(b.thread) < crowd {
		return b, nil
	}
	for _, other := range w.spawners {
		if other.filter == f && w.forest.Leaders(other.thread) <= crowd/2 {
			return other, nil
		}
	}
	other, err := w.newSpawner(f)
	if err != nil {
		errno, _ := errors.AsType[syscall.Errno](err)
		return nil, &birth.Error{Step: "seccomp", Errno: errno}
	}
	return other, nil
}

// retire ends the other spawning threads that have no leaders left.
func (w *warden) retire() {
	us := unix.Gettid()
	w.spawners = slices.DeleteFunc(w.spawners, func(b *spawner) bool {
		if b.thread == us || !w.forest.Leave(b.thread) {
			return false
		}
		close(b.token)
		return true
	})
}

// start begins one leader on this thread.
func (w *warden) start(b *spawner, s start) {
	if s.spec.Level == confine.Isolated {
		w.isolate(s)
	} else {
		w.startLeader(b, s)
	}
}
