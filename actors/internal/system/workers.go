package system

import (
	goruntime "runtime"
	"slices"
)

const (
	// maxKept is how many goroutines without a task a system keeps, at a few KiB each.
	maxKept = 64
	// maxInLine bounds the actors in the line of a worker.
	maxInLine = 8
	// maxInTurn is how many messages an actor handles before the next in line has its turn.
	maxInTurn = 8
	// maxBeforeWork is how many turns a worker takes while work waits for it.
	maxBeforeWork = 4
	// maxTurns is how many turns a worker takes before the scheduler may run other goroutines.
	maxTurns = 100
)

// task is a line of actors that have messages, or work.
type task struct {
	line []*mailbox
	work func() // nil: the actors
}

// workers run tasks in goroutines that are reused: a fresh one spends more time on growing its stack than most messages
// take.
type workers struct {
	next chan task
	kept chan struct{} // one token for each goroutine that waits for a task
	quit chan struct{} // closed when no goroutine is to be kept any more
}

func newWorkers() workers {
	return workers{next: make(chan task), kept: make(chan struct{}, maxKept), quit: make(chan struct{})}
}

// begin gives a task to a goroutine. It never blocks.
func (w workers) begin(t task) {
	select {
	case w.next <- t:
	default:
		go w.run(t)
	}
}

// run does one task after the other until enough goroutines are idle.
func (w workers) run(t task) {
	one := &worker{pool: w}
	defer one.leave()
	for {
		one.do(t)
		select {
		case w.kept <- struct{}{}:
		default:
			return
		}
		select {
		case t = <-w.next:
			<-w.kept
		case <-w.quit:
			return
		}
	}
}

// worker is a goroutine of workers with the tasks that it has found itself. An idle actor that gets a message from an actor
// joins the line of the sender's worker: waking another goroutine, and a processor for it, takes longer than most messages do.
// Only its own goroutine uses a worker.
type worker struct {
	pool  workers
	line  []*mailbox // actors that have messages; the first is being run
	work  func()     // it begins when the line is empty, or elsewhere after maxBeforeWork turns; nil for none
	waits int        // turns since it came
	turns int
	// answered says that an actor has answered a Call. The caller then runs first: what the actors still do, it need not wait
	// for.
	answered bool
}

// takes puts an actor into the line, if there is room.
func (w *worker) takes(m *mailbox) bool {
	if w == nil || len(w.line) == maxInLine {
		return false
	}
	w.line = append(w.line, m)
	return true
}

// takesWork keeps work for later, unless other work waits.
func (w *worker) takesWork(work func()) bool {
	if w == nil || w.work != nil {
		return false
	}
	w.work, w.waits = work, 0
	return true
}

func (w *worker) do(t task) {
	if t.work != nil {
		t.work()
		return
	}
	w.line = append(w.line, t.line...)
	for len(w.line) > 0 {
		w.turn()
		if len(w.line) == 0 && w.work != nil {
			work := w.work
			w.work = nil
			work()
		}
	}
}

// turn runs the first actor of the line.
func (w *worker) turn() {
	first, more := w.line[0], true
	for n := 0; more && n < maxInTurn && !w.answered; n++ {
		more = first.handle(w)
	}
	if w.answered && more {
		more = !first.rests()
	}
	w.line = slices.Delete(w.line, 0, 1) // which clears the place that is left over: it would hold on to an actor that has ended
	if more {
		w.line = append(w.line, first)
	}
	if w.waits++; w.work != nil && w.waits >= maxBeforeWork {
		w.pool.begin(task{work: w.work})
		w.work = nil
	}
	if w.turns++; w.answered || w.turns%maxTurns == 0 {
		w.answered = false
		goruntime.Gosched()
	}
}

// leave hands on what is left if an actor has ended the goroutine.
func (w *worker) leave() {
	if len(w.line) > 1 {
		w.pool.begin(task{line: w.line[1:]})
	}
	if w.work != nil {
		w.pool.begin(task{work: w.work})
	}
}
