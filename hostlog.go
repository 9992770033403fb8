package execbus

import (
	"context"
	"log/slog"

	"github.com/execbus/execbus/internal/hostcode"
)

// hostLog is a handler in front of the host's. A queue makes all calls of the host's handler.
type hostLog struct {
	out  *hostcode.Queue
	host *hostHandler
}

// newHostLogger is a logger that never waits for the host's and does not panic. Without a host's it logs nothing.
func newHostLogger(host *slog.Logger, out *hostcode.Queue) *slog.Logger {
	if host == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(hostLog{out, &hostHandler{make: host.Handler}})
}

// Enabled is true for every level: only the queue may ask the host.
func (h hostLog) Enabled(context.Context, slog.Level) bool { return true }

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
