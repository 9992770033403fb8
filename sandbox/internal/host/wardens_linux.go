package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/execbus/execbus/internal/reexec"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// maxStarts bounds the starts under way at once; more wait. The warden begins them one after the other anyway.
const maxStarts = 64

// Wardens starts leaders by the current warden, and replaces one that has died or that differs from this process. It is safe for
// concurrent use.
type Wardens struct {
	readable
	options Options
	starts  chan struct{} // one token for each start under way
	closing chan struct{} // closed by Close
	stale   atomic.Bool   // the rest of the state is to be read again

	// mu guards the change from one warden to the next. A start must see a complete change.
	mu       sync.Mutex
	state    *stateReader
	current  *process
	fallback *Direct // used if this process cannot be executed again
	all      map[*process]struct{}
	closed   bool
	living   sync.WaitGroup // wardens that still have something to report
}

// NewWardens returns an error if the state directory cannot be used. The warden starts with the first leader, or with Ready.
func NewWardens(options Options) (*Wardens, error) {
	if options.Timeouts == (Timeouts{}) {
		options.Timeouts = DefaultTimeouts()
	}
	if options.StateDir != "" {
		if err := checkStateDir(options.StateDir); err != nil {
			return nil, err
		}
	}
	w := &Wardens{options: options, starts: make(chan struct{}, maxStarts), closing: make(chan struct{}), state: newStateReader(), all: map[*process]struct{}{}}
	if options.StateDir != "" {
		w.living.Go(w.recover)
	}
	return w, nil
}

// recover ends the processes that a dead spawner with this state directory has left.
func (w *Wardens) recover() {
	report := recoverState(w.options.StateDir, w.options.Timeouts.Close, w.closing)
	if w.options.Recovered != nil && (report.Ended > 0 || len(report.Survivors) > 0) {
		w.options.Recovered(report)
	}
}

// Start starts a leader.
func (w *Wardens) Start(ctx context.Context, start Start) (ptyio.Leader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case w.starts <- struct{}{}:
		defer func() { <-w.starts }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		p, fallback, err := w.warden()
		switch {
		case err != nil:
			return nil, err
		case fallback != nil:
			return fallback.Start(ctx, start)
		}
		leader, err := p.start(ctx, start)
		if !errors.Is(err, errRetired) {
			return leader, err
		}
	}
}

// Ready starts the warden and waits until it has greeted. It does nothing if the program cannot be executed again.
func (w *Wardens) Ready(ctx context.Context) error {
	p, fallback, err := w.warden()
	if err != nil || fallback != nil {
		return err
	}
	return p.awaitReady(ctx)
}

// Refresh makes the next start read again the state that commands inherit from this process, other than its rights.
// Otherwise that state may be a second old.
func (w *Wardens) Refresh() { w.stale.Store(true) }

// Forget says that no start will use an enclosure any more. The message to the wardens comes after the waiting starts.
func (w *Wardens) Forget(e *Enclosure) {
	w.mu.Lock()
	for p := range w.all {
		p.withdraw(e)
	}
	w.mu.Unlock()
	e.close()
}

// warden returns the living warden, which it starts if need be, or the starter that is used instead.
func (w *Wardens) warden() (*process, *Direct, error) {
	number := w.state.ask()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, nil, errClosed()
	case w.fallback != nil:
		return nil, w.fallback, nil
	}
	now := w.state.since(number, w.stale.Swap(false))
	switch {
	case w.current != nil && w.current.alive() && w.current.inherited == now:
		return w.current, nil, nil
	case procs.Foreign():
		return nil, nil, errForeign()
	}
	if w.current == nil && w.options.Warden == "" {
		if why := reexec.CannotExecute(); why != "" {
			w.fallback = NewDirect()
			w.options.notice("commands are started without a warden, since this program cannot be executed as one: " + why +
				". Nothing ends them if it is killed, and a daemon that leaves its session is not found")
			return nil, w.fallback, nil
		}
	}
	if w.current != nil {
		w.current.retire()
	}
	p, err := startWarden(w.options)
	if err != nil {
		return nil, nil, &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: "warden", Detail: err.Error(),
			Hint: "a host that cannot execute itself must name another program in Options.Warden, or use the direct spawner"}
	}
	p.inherited = now
	w.current = p
	w.all[p] = struct{}{}
	w.living.Go(func() {
		p.serve()
		w.mu.Lock()
		delete(w.all, p)
		w.mu.Unlock()
	})
	return p, nil, nil
}

// Close ends all trees and waits for their ends.
func (w *Wardens) Close() error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	var closes sync.WaitGroup
	for p := range w.all {
		closes.Go(p.close)
	}
	fallback := w.fallback
	w.mu.Unlock()
	if first {
		close(w.closing)
		w.state.close()
	}
	if fallback != nil {
		_ = fallback.Close()
	}
	closes.Wait()
	w.living.Wait()
	w.readable.close()
	return nil
}

func (o *Options) notice(text string) {
	if o.Notice != nil {
		o.Notice(text)
	}
}

// errForeign is the error of a process whose /proc belongs to another pid namespace, and so has the numbers of strangers.
func errForeign() error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "/proc",
		Detail: "it is missing, or it belongs to another pid namespace, so commands could not be ended safely; mount the proc file system of the host's own pid namespace there"}
}
