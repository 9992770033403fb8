package warden

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

const (
	// answerWait is how long the answer to a start waits for the leader's exit. So the answer and the exit of a short command go
	// out together, and the execution of a program wakes no thread of the warden.
	answerWait = 250 * time.Microsecond
	// briefWait replaces answerWait if the last leader lived no longer than this. /bin/true takes 0.15 ms on a fast machine, and 0.6 ms
	// where page faults are slow.
	briefWait = time.Millisecond
	// prompt is how long a birth usually takes at most. The bearer concludes such births itself. The end of a later one can hang,
	// too, so a goroutine concludes it.
	prompt = 5 * time.Millisecond
	// longestLook is the time, at most, between two looks at a birth.
	longestLook = 50 * time.Millisecond
)

// newborn is a leader from its birth on. Until the end of its tree little of it may be left.
type newborn struct {
	start  start
	tree   *tree.Tree
	failed func() // called if the birth fails; may be nil
	begun  time.Time
	due    time.Time // when to check whether it has executed its program
	done   bool      // its start was answered, or a goroutine concludes its birth
	// unsaid is the answer to its start until that goes out. It is guarded by warden.mu.
	unsaid *wire.Started
}

// begun attends to a birth. No thread waits for it: when many commands start at once, all their births take long.
func (w *warden) begun(n *newborn) {
	w.closeAfter(n.start.files, n.tree) // soon: the output of a terminal does not end while we hold it open
	n.start.files = nil
	isolated := n.start.spec.Level == confine.Isolated
	n.start = start{id: n.start.id, spec: &wire.Start{Level: n.start.spec.Level}, unshared: n.start.unshared} // the rest may be large
	n.begun = time.Now()
	if isolated && n.tree.Prompt(prompt) {
		w.executed(n, n.tree.Executed())
		return
	}
	w.watch(n)
	n.due = n.begun.Add(answerWait)
	if w.brief {
		n.due = n.begun.Add(briefWait)
	}
	w.newborns = append(w.newborns, n)
	w.closeFiles()
}

// leave has a goroutine conclude a birth.
func (w *warden) leave(n *newborn) {
	n.done = true
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
		if n.done {
			go n.tree.Watch()
		}
		return
	}
	w.leaders[int32(fd)] = n
}

func (w *warden) unwatch(n *newborn) {
	fd := n.tree.PIDFD()
	if w.leaders[int32(fd)] == n {
		delete(w.leaders, int32(fd))
		w.poll.remove(fd)
	}
}

// answer answers a start, and reports whether the leader runs. If it does, tell or say must follow.
func (w *warden) answer(n *newborn, err error) (runs bool) {
	id := n.start.id
	n.done = true
	if err != nil {
		if n.failed != nil {
			n.failed()
		}
		w.fail(id, err)
		return false
	}
	w.mu.Lock()
	w.trees[id] = n.tree
	n.unsaid = &wire.Started{PID: n.tree.PID(), Mark: uint64(n.tree.Mark()), Level: n.start.spec.Level, Unshared: n.start.unshared}
	w.mu.Unlock()
	return true
}

// tell lets the answer to a start go out with the next message, or at the next turn. The lock is held until the answer waits
// there: a goroutine that finds it taken could otherwise say first what has become of the leader.
func (w *warden) tell(n *newborn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.unsaid != nil {
		_ = w.conn.Later(&wire.Reply{ID: n.start.id, Started: n.unsaid})
		n.unsaid = nil
	}
}

// say sends what has become of a leader, together with the answer to its start if that is due. The host then knows at the
// birth of a short command that it is over.
func (w *warden) say(n *newborn, r wire.Reply) {
	w.mu.Lock()
	r.ID, r.Started, n.unsaid = n.start.id, n.unsaid, nil
	if r.Ended != nil {
		delete(w.trees, r.ID)
	}
	w.mu.Unlock()
	_ = w.conn.Send(&r)
	if r.Ended != nil {
		w.disturb()
	}
}

// executed continues a start once it is known whether the leader has executed its program.
func (w *warden) executed(n *newborn, err error) {
	if w.answer(n, err) {
		w.tell(n)
		w.watch(n)
	}
}

// exit is called when the pidfd of a leader is ready.
func (w *warden) exit(fd int32) {
	n := w.leaders[fd]
	if n == nil {
		return
	}
	w.unwatch(n)
	w.brief = time.Since(n.begun) <= briefWait
	switch {
	case n.done:
		n.tree.Exit()
	case !n.tree.Prompt(0): // it dumped core before Linux 5.17
		w.leave(n)
	case w.answer(n, n.tree.Executed()):
		n.tree.Exit()
		w.tell(n)
	}
}

// attend answers the starts that are due, and returns how long the others can wait; negative if there are none.
func (w *warden) attend() (next time.Duration) {
	next = -1
	if len(w.newborns) == 0 {
		return next
	}
	now := time.Now()
	waiting := w.newborns[:0]
	for _, n := range w.newborns {
		switch {
		case n.done:
			continue
		case now.Before(n.due):
		case n.tree.Prompt(0):
			w.brief = false
			w.unwatch(n) // before the descriptor is closed
			if now.Sub(n.begun) > prompt {
				w.leave(n)
			} else {
				w.executed(n, n.tree.Executed())
			}
			continue
		default:
			n.due = now.Add(min(max(now.Sub(n.begun)/8, answerWait), longestLook))
		}
		waiting = append(waiting, n)
		if wait := n.due.Sub(now); next < 0 || wait < next {
			next = wait
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
	_ = w.conn.Flush()
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
