package warden

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

const (
	// glance is how long the thread waits at a time until a program is executed. Requests and exits may come meanwhile.
	glance = 250 * time.Microsecond
	// prompt is how long a birth usually takes at most: of 64 at once on two processors, the last takes 20 ms. A goroutine looks after
	// one that takes longer. With 5 ms that was every second of those, and its looks cost more than the birth.
	prompt = 50 * time.Millisecond
	// longestLook is the time, at most, between two looks at it.
	longestLook = 50 * time.Millisecond
)

// child is a leader from its birth on. Until the end of its tree little of it may be left.
type child struct {
	start start
	tree  *tree.Tree
	plan  *registered // whose descriptors it needs until it has executed its program; nil for none
	begun time.Time
	// wanted says which executions of the tree are seen; nil for none.
	wanted *executions.Wanted

	// These belong to the goroutine that looks after a birth.
	looked time.Time
	waited time.Duration // for how long it has been seen waiting
}

// begun attends to a birth. Its descriptors stay open until the program is executed: the child may share our table of them.
func (w *warden) begun(n *child) {
	n.start = start{id: n.start.id, spec: &wire.Start{Level: n.start.spec.Level, Patience: n.start.spec.Patience}, files: n.start.files, unshared: n.start.unshared,
		leave: n.start.leave} // the rest may be large
	n.begun = time.Now()
	w.children = append(w.children, n)
}

// attend answers the starts whose births are over, and reports whether others are left. If none is over it waits a little for the oldest:
// when many commands start at once, all their births take long.
func (w *warden) attend() (left bool) {
	if len(w.children) == 0 {
		return false
	}
	waiting := w.children[:0]
	for _, n := range w.children {
		switch {
		case time.Since(n.begun) > prompt:
			go w.outlast(n)
		case n.tree.Prompt(0):
			w.executed(n, n.conclude())
		default:
			waiting = append(waiting, n)
		}
	}
	if len(waiting) == len(w.children) && waiting[0].tree.Prompt(glance) {
		w.executed(waiting[0], waiting[0].conclude())
		waiting = slices.Delete(waiting, 0, 1)
	}
	clear(w.children[len(waiting):])
	w.children = waiting
	return len(waiting) > 0
}

// outlast looks after a birth until it is over, and gives it up if it hangs. It does not wait in the kernel, because that would take a
// thread for each. The start of a child that does not die then is answered twice, and the host ignores the second answer.
func (w *warden) outlast(n *child) {
	n.looked = n.begun
	answered := false
	for !n.tree.Prompt(0) && !n.tree.Died() {
		if n.hangs(time.Now(), n.tree.Runs) {
			n.tree.GiveUp()
		}
		if !answered && n.waited >= n.start.spec.Patience {
			answered = true
			w.fail(n.start.id, &birth.Error{Step: "execve", Errno: unix.ETIMEDOUT})
		}
		<-time.After(min(time.Since(n.begun)/8, longestLook))
	}
	w.proceed(start{born: n, failed: n.conclude()})
}

// hangs is told what a look at a birth has found. A birth hangs if it has not been seen running for half of the start's patience once
// that is over. A cold disk takes less, and on a busy machine a birth can take longer. While this process could not look, because it
// was stopped or had no processor, no time counts.
func (n *child) hangs(now time.Time, runs func() bool) bool {
	half := n.start.spec.Patience / 2
	n.waited += min(now.Sub(n.looked), longestLook)
	n.looked = now
	if now.Sub(n.begun) < half || runs() {
		n.waited = 0
	}
	return n.waited >= half
}

// conclude ends a birth that is over. It may hang, too, if that took long.
func (n *child) conclude() error {
	err := n.tree.Executed()
	closeAll(n.start.files) // the output of a terminal does not end while we hold it open
	n.start.files = nil
	return err
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}

// proceed has the thread that serves continue with a start. It may be called in any goroutine.
func (w *warden) proceed(s start) {
	w.again <- s
	w.poll.ring()
}

// watch has the spawning threads see a leader exit. The exit of an isolated leader is reported by process 1 of its namespace instead.
func (w *warden) watch(n *child) {
	fd := n.tree.PIDFD()
	if n.start.spec.Level == confine.Isolated || w.poll.add(fd) != nil {
		go n.tree.Watch()
		return
	}
	w.leaders[int32(fd)] = n
}

// executed answers a start once it is known whether the leader has executed its program.
func (w *warden) executed(n *child, err error) {
	id := n.start.id
	if n.plan != nil {
		n.plan.release()
		n.plan = nil
	}
	if err != nil {
		w.failAfter(n.start.leave, id, err)
		return
	}
	started := &wire.Started{PID: n.tree.PID(), Mark: uint64(n.tree.Mark()), Level: n.start.spec.Level, Unshared: n.start.unshared}
	w.mu.Lock()
	w.trees[id] = n.tree
	_ = w.conn.Send(&wire.Reply{ID: id, Started: started}) // under the lock: nothing that ends the tree may say so before
	w.see(n)
	w.mu.Unlock()
	w.watch(n)
}

// say sends what has become of a leader.
func (w *warden) say(n *child, r wire.Reply) {
	r.ID = n.start.id
	if r.Ended != nil {
		w.mu.Lock()
		delete(w.trees, r.ID)
		watch := w.watches[r.ID]
		delete(w.watches, r.ID)
		w.mu.Unlock()
		if watch != nil {
			watch.Close()
		}
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

// dispatch waits until something has happened and deals with it. It leaves unread what the host has sent.
func (w *warden) dispatch() {
	w.yield()
	events := w.wait(w.attend())
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

// wait waits for events, unless there is something to do anyway. If nothing happens, the warden rests once.
func (w *warden) wait(busy bool) []unix.EpollEvent {
	if busy || w.rested {
		most := time.Duration(-1)
		if busy {
			most = 0
		}
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
		w.dispatch()
	}
	w.mail = false
	return nil
}
