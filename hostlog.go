package execbus

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus/internal/hostcode"
)

// levelAge is the value of hostLevel.age: a change of the host's level is noticed within that time.
const levelAge = time.Second

// hostLog is a handler in front of the host's. A queue makes all calls of the host's handler.
type hostLog struct {
	out   *hostcode.Queue
	level *hostLevel
	host  *hostHandler
}

// newHostLogger is a logger that never waits for the host's and does not panic.
func newHostLogger(host *slog.Logger, out *hostcode.Queue) *slog.Logger {
	h := hostLog{out, &hostLevel{out: out, age: levelAge}, &hostHandler{make: host.Handler}}
	h.level.least.Store(math.MinInt64) // everything is passed on until the host has been asked
	h.level.ask(h.host)
	return slog.New(h)
}

// Enabled reports whether the host wanted records of a level when it was last asked.
func (h hostLog) Enabled(_ context.Context, level slog.Level) bool {
	h.level.ask(h.host)
	return int64(level) >= h.level.least.Load()
}

// Handle passes a record on.
func (h hostLog) Handle(ctx context.Context, record slog.Record) error {
	h.out.Submit(func() {
		if host := h.host.get(); host.Enabled(ctx, record.Level) {
			_ = host.Handle(ctx, record) // no caller waits for the error
		}
	})
	return nil
}

// WithAttrs calls the method of the host's handler when the first record comes.
func (h hostLog) WithAttrs(attributes []slog.Attr) slog.Handler {
	parent := h.host
	h.host = &hostHandler{make: func() slog.Handler { return parent.get().WithAttrs(attributes) }}
	return h
}

// WithGroup calls the method of the host's handler when the first record comes.
func (h hostLog) WithGroup(name string) slog.Handler {
	parent := h.host
	h.host = &hostHandler{make: func() slog.Handler { return parent.get().WithGroup(name) }}
	return h
}

// hostHandler is a handler of the host that is made when it is needed. Only the queue touches it.
type hostHandler struct {
	make func() slog.Handler
	made slog.Handler
}

func (h *hostHandler) get() slog.Handler {
	if h.made == nil {
		h.made = h.make()
	}
	return h.made
}

// hostLevel is the least level that the host's handler wants.
type hostLevel struct {
	out *hostcode.Queue
	age time.Duration // how long an answer of the host counts
	// Callers that log read these, in any goroutine and without waiting.
	asked atomic.Int64 // when, in Unix nanoseconds
	least atomic.Int64
}

// ask asks the host's handler, once per age at most.
func (l *hostLevel) ask(host *hostHandler) {
	now, last := time.Now().UnixNano(), l.asked.Load()
	if now-last < int64(l.age) || !l.asked.CompareAndSwap(last, now) {
		return
	}
	l.out.Try(func() {
		least := int64(math.MaxInt64)
		for _, level := range []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug} {
			if host.get().Enabled(context.Background(), level) {
				least = int64(level)
			}
		}
		l.least.Store(least)
	})
}
