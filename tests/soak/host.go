package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

const (
	// patience is how long a call, an end or a wait for an event may take. After that it counts as hung.
	patience = time.Minute
	// endWait is how long everything may take to end at a quiet point.
	endWait = 20 * time.Second
)

// host embeds execbus: it has a runtime and its sessions.
type host struct {
	runtime *execbus.Runtime
	faults  *faults
	nonce   string

	// epoch is incremented before and after each killing of the warden. A step that sees it change, or sees an odd value, was
	// disturbed.
	epoch atomic.Int64
	died  chan struct{} // the runtime has noticed the death of a warden

	sessions atomic.Int64 // opened so far
	tally    tally

	mu   sync.Mutex
	open map[*client]bool // sessions whose ledger is being kept
}

func newHost(f *faults, nonce string) (*host, error) {
	h := &host{faults: f, nonce: nonce, died: make(chan struct{}, 16), open: map[*client]bool{}}
	var err error
	h.runtime, err = execbus.Start(execbus.Options{Logger: slog.New(logWatch{Handler: slog.DiscardHandler, host: h})})
	return h, err
}

// session opens a session whose every event is checked.
func (h *host) session(options execbus.SessionOptions) (*client, error) {
	options.Environment.Set = map[string]string{markVariable: h.nonce}
	session, err := h.runtime.OpenSession(options)
	if err != nil {
		return nil, err
	}
	c := &client{host: h, session: session, name: fmt.Sprintf("session%d", h.sessions.Add(1)), max: options.MaxProcesses}
	if c.max == 0 {
		c.max = execbus.DefaultSessionMaxProcesses
	}
	if err := c.ledger.follow(h, c); err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.open[c] = true
	h.mu.Unlock()
	return c, nil
}

// drain closes all sessions but one, and checks that every process has ended as it must.
func (h *host) drain(ctx context.Context, but *client) {
	h.mu.Lock()
	all := h.open
	h.open = map[*client]bool{}
	if all[but] {
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
		but.ledger.restart()
	}
}

// disturbed reports whether a warden was killed since an epoch was read.
func (h *host) disturbed(epoch int64) bool { return epoch%2 == 1 || h.epoch.Load() != epoch }

// killWarden kills the warden and waits until the runtime has noticed, and so has reported everything that was lost.
func (h *host) killWarden() {
	warden := newestWarden()
	if warden == 0 {
		return
	}
	h.epoch.Add(1)
	defer h.epoch.Add(1)
	switch killed, err := signalChild(syscall.SIGKILL, warden, os.Getpid(), wardenName); {
	case err != nil:
		h.faults.add("chaos", "kill the warden: %v", err)
	case killed:
		h.tally.add("wardens killed")
		select {
		case <-h.died:
		case <-time.After(patience):
			h.faults.add("chaos", "the runtime did not notice in %v that its warden was killed", patience)
		}
	}
}

// stopWarden stops the warden, as a command could. The runtime continues it. A step may only be delayed.
func (h *host) stopWarden() {
	switch stopped, err := signalChild(syscall.SIGSTOP, newestWarden(), os.Getpid(), wardenName); {
	case err != nil:
		h.faults.add("chaos", "stop the warden: %v", err)
	case stopped:
		h.tally.add("wardens stopped")
	}
}

func newestWarden() int {
	var newest proc
	for _, p := range allProcs() {
		if p.ppid == os.Getpid() && p.name == wardenName && !p.dead() && p.start >= newest.start {
			newest = p
		}
	}
	return newest.pid
}

// shutdown ends the runtime.
func (h *host) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	if err := h.runtime.Shutdown(ctx); err != nil {
		h.faults.add("end", "shutdown: %v", err)
	}
}

// logWatch complains about every warning of the runtime, except about a warden that this program killed.
type logWatch struct {
	slog.Handler
	host *host
}

// Enabled implements slog.Handler.
func (l logWatch) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// WithAttrs implements slog.Handler.
func (l logWatch) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l logWatch) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler.
func (l logWatch) Handle(_ context.Context, record slog.Record) error {
	disturbed := l.host.epoch.Load()%2 == 1
	if record.Message == "the warden died" && disturbed {
		select {
		case l.host.died <- struct{}{}:
		default:
		}
		return nil
	}
	if record.Message == "process ended" {
		return nil // the ledger judges these
	}
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.host.faults.add("log", "%s", text)
	return nil
}

// tally counts events, by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int64
}

func (t *tally) add(name string) { t.plus(name, 1) }

func (t *tally) plus(name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int64{}
	}
	t.counts[name] += n
}

func (t *tally) all() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]int64{}
	for name, n := range t.counts {
		all[name] = n
	}
	return all
}

// statusOf describes a result for complaints.
func statusOf(r *messages.Result) string {
	if r == nil {
		return "no result"
	}
	return fmt.Sprintf("process %d, running %v, %s", r.Process, r.Running, r.Status)
}
