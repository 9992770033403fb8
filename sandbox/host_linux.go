package sandbox

import (
	"context"
	"errors"
	"sync"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// maxStarts bounds the starts under way at once; more wait. The warden begins them one after the other anyway.
const maxStarts = 64

// wardens is the spawner. It has the current warden, and replaces one that has died or that differs from this process.
type wardens struct {
	options Options
	starts  chan struct{} // one token for each start under way
	closing chan struct{} // closed by Close
	mirror  *mirror

	// mu guards the change from one warden to the next. A spawn must see a complete change.
	mu       sync.Mutex
	current  *wardenProcess
	fallback ptyio.Starter // used if this process cannot be executed again
	all      map[*wardenProcess]struct{}
	closed   bool
	living   sync.WaitGroup // wardens that still have something to report
}

func newDefault(options Options) (ptyio.Spawner, error) {
	reapFormer()
	w := &wardens{options: options, starts: make(chan struct{}, maxStarts), closing: make(chan struct{}), mirror: newMirror(), all: map[*wardenProcess]struct{}{}}
	if options.StateDir != "" {
		if err := checkStateDir(options.StateDir); err != nil {
			return nil, err
		}
		w.living.Go(w.recover)
	}
	return w, nil
}

// recover ends the processes that a dead spawner with this state directory has left.
func (w *wardens) recover() {
	report := recoverState(w.options.StateDir, w.options.waits().close, w.closing)
	if w.options.Recovered != nil && (report.Ended > 0 || len(report.Survivors) > 0) {
		w.options.Recovered(report)
	}
}

func (w *wardens) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	return spawn(ctx, launch, asked{w, w.mirror.begun.Load()})
}

// asked starts commands for requests that were made when this many looks at this process had begun.
type asked struct {
	*wardens
	looks uint64
}

// Can implements ptyio.Spawner.
func (*wardens) Can(launch ptyio.Launch) (messages.Enforcement, error) { return can(launch) }

// Resolver implements ptyio.Spawner.
func (*wardens) Resolver() ptyio.Resolver { return ptyio.Local() }

// Prompt implements ptyio.Prompt.
func (*wardens) Prompt() {}

// Start implements ptyio.Starter.
func (w asked) Start(ctx context.Context, start ptyio.Start) (ptyio.Leader, error) {
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
		p, fallback, err := w.warden(w.looks)
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
func (w *wardens) Ready(ctx context.Context) error {
	p, fallback, err := w.warden(w.mirror.begun.Load())
	if err != nil || fallback != nil {
		return err
	}
	select {
	case <-p.ready:
		return nil
	case <-p.gone:
		return p.errGone()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Refresh makes the next start read again the state that commands inherit from this process, other than its rights.
// Otherwise that state may be a second old.
func (w *wardens) Refresh() { w.mirror.refresh() }

// warden returns the living warden, which it starts if need be, or the starter that is used instead.
func (w *wardens) warden(looks uint64) (*wardenProcess, ptyio.Starter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, nil, errClosed()
	case w.fallback != nil:
		return nil, w.fallback, nil
	}
	now, rest := w.mirror.look(looks)
	switch {
	case w.current != nil && w.current.alive() && w.current.rights == now && w.current.rest == rest:
		return w.current, nil, nil
	case tree.Foreign():
		return nil, nil, errForeign()
	}
	if w.current == nil && w.options.Warden == "" {
		if why := cannotExecute(); why != "" {
			w.fallback = newForking()
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
	p.rights, p.rest = now, rest
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

// Close implements ptyio.Spawner.
func (w *wardens) Close() error {
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
	}
	if d, ok := fallback.(*direct); ok {
		_ = d.Close()
	}
	closes.Wait()
	w.living.Wait()
	if first {
		w.mirror.close()
	}
	return nil
}

// errForeign is the error of a process whose /proc belongs to another pid namespace, and so has the numbers of strangers.
func errForeign() error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "/proc",
		Detail: "it is missing, or it belongs to another pid namespace, so commands could not be ended safely; mount the proc file system of the host's own pid namespace there"}
}
