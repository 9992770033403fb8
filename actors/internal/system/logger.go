package system

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// guard makes a logger whose panics are dropped. We log in deferred functions and in goroutines of any sender of a
// message: a panic there would end the host.
func guard(logger *slog.Logger) *slog.Logger { return slog.New(guarded{logger.Handler()}) }

// guarded is the host's handler behind that guard.
type guarded struct{ host slog.Handler }

func (g guarded) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer drop()
	return g.host.Enabled(ctx, level)
}

func (g guarded) Handle(ctx context.Context, record slog.Record) error {
	defer drop()
	return g.host.Handle(ctx, record)
}

func (g guarded) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	defer drop()
	with = g // if the next line panics
	return guarded{g.host.WithAttrs(attrs)}
}

func (g guarded) WithGroup(name string) (with slog.Handler) {
	defer drop()
	with = g // if the next line panics
	return guarded{g.host.WithGroup(name)}
}

// drop ignores a panic of the host's code where nobody can be told. It is deferred.
func drop() { _ = recover() }

// logPanic logs a panic that was recovered, with the stack of the caller.
func (s *System) logPanic(message string, pid *PID, at string, reason any) {
	s.logger.Error(message, "actor", pid.GetId(), "at", at, "reason", printed(reason), "stack", string(debug.Stack()))
}

// printed is fmt.Sprint for a value that was passed to panic, without another panic: fmt.Sprint panics if the value's
// own method panics with a value that cannot be printed either.
func printed(reason any) (text string) {
	text = "it cannot be printed" // if the next line panics
	defer drop()
	return fmt.Sprint(reason)
}
