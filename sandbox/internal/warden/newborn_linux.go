package warden

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

const (
	// prompt is how long a birth usually takes at most. The end of a later one can hang, too, so a goroutine concludes it.
	prompt = 5 * time.Millisecond
	// shortestLook and longestLook bound the time between two looks at births. Usually something else wakes the bearer before.
	shortestLook = time.Millisecond
	longestLook  = 50 * time.Millisecond
)

// newborn is a leader from its birth on. Until the end of its tree little of it may be left.
type newborn struct {
	start  start
	tree   *tree.Tree
	failed func() // called if the birth fails; may be nil
	begun  time.Time
}

// begun attends to a birth. Only if it is the only one the bearer waits for it: many that begin at once go on beside each other, and
// no thread waits for one that takes long.
func (w *warden) begun(n *newborn) {
	files := n.start.files
	n.start = start{id: n.start.id, spec: &wire.Start{Level: n.start.spec.Level}, unshared: n.start.unshared} // the rest may be large
	n.begun = time.Now()
	if w.newborns = append(w.newborns, n); len(w.newborns) == 1 && len(w.births) == 0 && !w.requested() {
		n.tree.Prompt(prompt)
	}
	w.closeAfter(files, n.tree) // soon: the output of a terminal does not end while we hold it open
}

// requested reports whether the host has sent something.
func (w *warden) requested() bool {
	sent, _ := unix.Poll([]unix.PollFd{{Fd: socketFD, Events: unix.POLLIN}}, 0)
	return sent > 0 || w.conn.Pending()
}

// leave has a goroutine conclude a birth.
func (w *warden) leave(n *newborn) {
	go func() { w.proceed(start{born: n, failed: n.tree.Executed()}) }()
}

// proceed has the bearer whose turn it is continue with a start. It may be called in any goroutine.
func (w *warden) proceed(s start) {
	w.again <- s
	w.poll.ring()
}

// watch has the bearers see a leader exit. The exit of an isolated leader is reported by process 1 of its namespace instead.
func (w *warden) watch(n *newborn) {
	fd := n.tree.PIDFD()
	if n.start.spec.Level == confine.Isolated || w.poll.add(fd) != nil {
		go n.tree.Watch()
		return
	}
	w.leaders[int32(fd)] = n
}

// executed answers a start once it is known whether the leader has executed its program.
func (w *warden) executed(n *newborn, err error) {
	id := n.start.id
	if err != nil {
		if n.failed != nil {
			n.failed()
		}
		w.fail(id, err)
		return
	}
	started := &wire.Started{PID: n.tree.PID(), Mark: uint64(n.tree.Mark()), Level: n.start.spec.Level, Unshared: n.start.unshared}
	w.mu.Lock()
	w.trees[id] = n.tree
	_ = w.conn.Send(&wire.Reply{ID: id, Started: started}) // under the lock: nothing that ends the tree may say so before
	w.mu.Unlock()
	w.watch(n)
}

// say sends what has become of a leader.
func (w *warden) say(n *newborn, r wire.Reply) {
	r.ID = n.start.id
	if r.Ended != nil {
		w.mu.Lock()
		delete(w.trees, r.ID)
		w.mu.Unlock()
	}
	_ = w.conn.Send(&r)
	if r.Ended != nil {
		w.disturb()
	}
}

// exit is called when the pidfd of a leader is ready.
func (w *warden) exit(fd int32) {
	if n := w.leaders[fd]; n != nil {
		delete(w.leaders, fd)
		w.poll.remove(int(fd))
		n.tree.Exit()
	}
}

// attend answers the starts whose leaders have executed their programs, and returns how long the others can wait for the next look;
// negative if there are none.
func (w *warden) attend() (next time.Duration) {
	next = -1
	if len(w.newborns) == 0 {
		return next
	}
	now := time.Now()
	waiting := w.newborns[:0]
	for _, n := range w.newborns {
		age := now.Sub(n.begun)
		switch late := age > prompt; {
		case late && (n.tree.Prompt(0) || n.tree.Died()):
			w.leave(n)
		case !late && n.tree.Prompt(0):
			w.executed(n, n.tree.Executed())
		default:
			waiting = append(waiting, n)
			if wait := min(max(age/8, shortestLook), longestLook); next < 0 || wait < next {
				next = wait
			}
		}
	}
	clear(w.newborns[len(waiting):])
	w.newborns = waiting
	return next
}

// turn waits until something has happened and deals with it. It leaves unread what the host has sent.
func (w *warden) turn() {
	w.yield()
	next := w.attend()
	w.closeFiles() // before a wait that may have no end: those of a newborn that took its time
	events := w.wait(next)
	w.closeFiles() // before an exit is reported: the host may then wait for the end of the output
	for _, event := range events {
		switch int(event.Fd) {
		case socketFD:
			w.mail = true
		case w.poll.bell:
			w.poll.hear()
			w.resume()
		default:
			w.exit(event.Fd)
		}
	}
}

// wait waits for events, for no longer than most unless that is negative. If nothing happens, the warden rests once.
func (w *warden) wait(most time.Duration) []unix.EpollEvent {
	if most >= 0 || w.rested {
		events := w.poll.wait(most)
		w.rested = w.rested && len(events) == 0
		return events
	}
	began := time.Now()
	events := w.poll.wait(restAfter)
	if len(events) == 0 && time.Since(began) >= restAfter { // and not a signal
		w.rest()
	}
	return events
}

// resume continues with the starts that have waited for something else.
func (w *warden) resume() {
	for {
		select {
		case s := <-w.again:
			w.handle(s)
		default:
			return
		}
	}
}

// await returns when the host has sent something.
func (w *warden) await() error {
	for !w.mail {
		w.turn()
	}
	w.mail = false
	return nil
}
