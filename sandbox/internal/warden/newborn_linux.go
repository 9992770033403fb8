package warden

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

const (
	// prompt is how long a birth usually takes at most. The thread that starts leaders waits for it that long.
	prompt = 5 * time.Millisecond
	// longestLook is the time, at most, between two looks at a birth that takes longer.
	longestLook = 50 * time.Millisecond
)

// newborn is a leader from its birth on. Until the end of its tree little of it may be left.
type newborn struct {
	start  start
	tree   *tree.Tree
	plan   *registered // whose descriptors it needs until it has executed its program; nil for none
	failed func()      // called if the birth fails; may be nil
}

// begun attends to a birth. The descriptors stay open until the program is executed: the newborn may share our table of them.
func (w *warden) begun(n *newborn) {
	files := n.start.files
	n.start = start{id: n.start.id, spec: &wire.Start{Level: n.start.spec.Level}, unshared: n.start.unshared} // the rest may be large
	begun := time.Now()
	executed := func() error {
		err := n.tree.Executed()
		closeAll(files) // the output of a terminal does not end while we hold it open
		return err
	}
	if n.tree.Prompt(prompt) {
		w.executed(n, executed())
		return
	}
	go func() {
		for !n.tree.Prompt(0) { // a wait that may have no end would take a thread
			<-time.After(min(time.Since(begun)/8, longestLook))
		}
		w.proceed(start{born: n, failed: executed()})
	}()
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
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
	if n.plan != nil {
		n.plan.release()
		n.plan = nil
	}
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

// turn waits until something has happened and deals with it. It leaves unread what the host has sent.
func (w *warden) turn() {
	w.yield()
	events := w.wait()
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

// wait waits for events. If nothing happens, the warden rests once.
func (w *warden) wait() []unix.EpollEvent {
	if w.rested {
		events := w.poll.wait(-1)
		w.rested = len(events) == 0
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
