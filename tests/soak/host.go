package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/tests/harness"
)

// host embeds execbus: it has a runtime and its sessions.
type host struct {
	runtime *execbus.Runtime
	faults  *faults
	mark    string

	// epoch is incremented before and after each killing of the warden. A step that sees it change, or sees an odd value, was
	// disturbed.
	epoch atomic.Int64
	died  chan struct{} // the runtime has noticed the death of a warden
	chaos sync.WaitGroup

	sessions atomic.Int64 // opened so far
	tally    tally

	mu   sync.Mutex
	open map[*client]bool // sessions whose ledger is being kept
}

// client is one session with its ledger.
type client struct {
	host    *host
	session *execbus.Session
	name    string
	max     int // the limit on processes
	ledger  ledger
	closing atomic.Bool
}

func newHost(f *faults, mark string) (*host, error) {
	h := &host{faults: f, mark: mark, died: make(chan struct{}, 16), open: map[*client]bool{}}
	var err error
	h.runtime, err = execbus.Start(execbus.Options{Logger: slog.New(slog.NewTextHandler(logWatch{h}, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	return h, err
}

// session opens a session whose every event is checked.
func (h *host) session(options execbus.SessionOptions) (*client, error) {
	options.Environment.Set = map[string]string{markVariable: h.mark}
	session, err := h.runtime.OpenSession(options)
	if err != nil {
		return nil, err
	}
	c := &client{host: h, session: session, name: fmt.Sprintf("session%d", h.sessions.Add(1)), max: options.MaxProcesses}
	if c.max == 0 {
		c.max = execbus.DefaultSessionMaxProcesses
	}
	if err := c.ledger.follow(c); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[c] = true
	return c, nil
}

// close closes the session. A call that uses it meanwhile gets an error that says so.
func (c *client) close(ctx context.Context) {
	c.closing.Store(true)
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	if err := c.session.Close(ctx); err != nil {
		c.host.faults.add(c.name, "close: %v", err)
	}
}

// drain closes all sessions but one, and checks that every process has ended as it must.
func (h *host) drain(ctx context.Context, but *client) {
	h.mu.Lock()
	all := h.open
	h.open = map[*client]bool{}
	if but != nil {
		delete(all, but)
		h.open[but] = true
	}
	h.mu.Unlock()
	var closing sync.WaitGroup
	for c := range all {
		closing.Go(func() {
			c.close(ctx)
			c.ledger.finish()
		})
	}
	closing.Wait()
	if but != nil {
		ctx, cancel := context.WithTimeout(ctx, endWait)
		defer cancel()
		if err := but.session.TerminateAll(ctx); err != nil {
			h.faults.add(but.name, "terminate all: %v", err)
		}
		but.ledger.settle()
	}
}

// shutdown ends the runtime.
func (h *host) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	if err := h.runtime.Shutdown(ctx); err != nil {
		h.faults.add("end", "shutdown: %v", err)
	}
}

// disturbed reports whether a warden was killed since an epoch was read.
func (h *host) disturbed(epoch int64) bool { return epoch%2 == 1 || h.epoch.Load() != epoch }

// killWarden kills the warden and waits until the runtime has noticed, and so has reported everything that was lost.
func (h *host) killWarden() {
	h.epoch.Add(1)
	defer h.epoch.Add(1)
	if h.signalWarden(syscall.SIGKILL, "wardens killed") {
		select {
		case <-h.died:
		case <-time.After(patience):
			h.faults.add("chaos", "the runtime did not notice in %v that its warden was killed", patience)
		}
	}
}

// stopWarden stops the warden, as a command could. The runtime continues it. A step may only be delayed.
func (h *host) stopWarden() { h.signalWarden(syscall.SIGSTOP, "wardens stopped") }

func (h *host) signalWarden(number os.Signal, done string) (sent bool) {
	warden := harness.Warden(os.Getpid())
	if warden == 0 {
		return false
	}
	handle, err := os.FindProcess(warden)
	if err == nil {
		defer handle.Release()
		if harness.Warden(os.Getpid()) != warden { // the handle may be of a stranger who got its number
			return false
		}
		err = handle.Signal(number)
	}
	if err == nil {
		h.tally.plus(done, 1)
	} else if !errors.Is(err, os.ErrProcessDone) {
		h.faults.add("chaos", "%s: %v", done, err)
	}
	return err == nil
}

// logWatch complains about every warning of the runtime, except about a warden that this program killed, and about ends, which the
// ledger judges.
type logWatch struct{ host *host }

// Write implements io.Writer.
func (l logWatch) Write(record []byte) (int, error) {
	switch {
	case bytes.Contains(record, []byte(`msg="the warden died"`)) && l.host.epoch.Load()%2 == 1:
		select {
		case l.host.died <- struct{}{}:
		default:
		}
	case !bytes.Contains(record, []byte(`msg="process ended"`)):
		l.host.faults.add("log", "%s", record)
	}
	return len(record), nil
}

// pool holds the sessions that all workers of a round share.
type pool []atomic.Pointer[client]

func newPool(h *host, size int) (pool, error) {
	p := make(pool, size)
	for i := range p {
		c, err := h.session(execbus.SessionOptions{MaxProcesses: 8 + i, ProtectedProcesses: 2})
		if err != nil {
			return nil, err
		}
		p[i].Store(c)
	}
	return p, nil
}

// disturb kills or stops the warden at some moment of a round, or leaves it alone.
func (h *host) disturb(ctx context.Context, dice *rand.Rand, length time.Duration) {
	act := [...]func(){nil, h.killWarden, h.stopWarden}[dice.IntN(3)]
	if act == nil {
		return
	}
	pause := time.Duration(dice.Int64N(int64(length)))
	h.chaos.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			act()
		}
	})
}
