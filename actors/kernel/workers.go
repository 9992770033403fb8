package kernel

// maxKept is how many goroutines without work a system keeps, at a few KiB each.
const maxKept = 64

// workers run functions in goroutines that are reused. A message for an idle actor needs a goroutine, and a fresh one
// spends more time on growing its stack than most messages take.
type workers struct {
	next chan func()
	kept chan struct{} // one token for each goroutine that waits for work
	quit chan struct{} // closed when no goroutine is to be kept any more
}

func newWorkers() workers {
	return workers{next: make(chan func()), kept: make(chan struct{}, maxKept), quit: make(chan struct{})}
}

// Schedule implements the library's Dispatcher. It never blocks.
func (w workers) Schedule(do func()) {
	select {
	case w.next <- do:
	default:
		go w.work(do)
	}
}

// Throughput implements the library's Dispatcher: how many messages an actor handles before others get a turn. It is the
// library's own default.
func (w workers) Throughput() int { return 300 }

// work runs functions one after the other until enough goroutines are idle.
func (w workers) work(do func()) {
	for {
		do()
		select {
		case w.kept <- struct{}{}:
		default:
			return
		}
		select {
		case do = <-w.next:
			<-w.kept
		case <-w.quit:
			return
		}
	}
}
