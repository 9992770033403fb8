package sandbox

import (
	"context"
	"sync"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// maxStarts bounds the starts under way at once; more wait. The warden forks one after the other anyway.
const maxStarts = 64

// wardens is the spawner: it holds the current warden and replaces a dead one.
type wardens struct {
	options Options
	starts  chan struct{} // one token for each start under way

	// mu guards the change from one warden to the next, which every spawn must see done.
	mu      sync.Mutex
	current *wardenProcess
	closed  bool
	living  sync.WaitGroup // wardens about which not everything was reported
}

func newDefault(options Options) (ptyio.Spawner, error) {
	return &wardens{options: options, starts: make(chan struct{}, maxStarts)}, nil
}

func (w *wardens) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	return ptyio.Spawn(ctx, launch, w)
}

// Start implements ptyio.Starter.
func (w *wardens) Start(ctx context.Context, start ptyio.Start) (ptyio.Leader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case w.starts <- struct{}{}:
		defer func() { <-w.starts }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p, err := w.warden()
	if err != nil {
		return nil, err
	}
	return p.start(ctx, start)
}

// warden is the living warden, started if need be.
func (w *wardens) warden() (*wardenProcess, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed()
	}
	if w.current != nil && w.current.alive() {
		return w.current, nil
	}
	p, err := startWarden(w.options.Lost)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeSpawnFailed, Op: "spawn", Subject: "warden", Detail: err.Error(),
			Hint: "a host that cannot execute itself must use the direct spawner"}
	}
	w.current = p
	w.living.Go(p.serve)
	return p, nil
}

// Close implements ptyio.Spawner.
func (w *wardens) Close() error {
	w.mu.Lock()
	p := w.current
	w.closed = true
	w.mu.Unlock()
	if p != nil {
		p.close()
	}
	w.living.Wait()
	return nil
}
