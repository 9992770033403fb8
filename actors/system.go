package actors

import (
	"context"
	"log/slog"

	"github.com/execbus/execbus/actors/internal/system"
)

// A System runs actors, and a PID names one of them. The package that defines them is internal: only package execbus starts
// a system of actors, and sends to the actors of a runtime.
type (
	System = system.System
	PID    = system.PID
)

// NewSystem starts an empty system, which logs to logger.
func NewSystem(logger *slog.Logger) *System { return system.NewSystem(logger, system.Options{}) }

// Ask sends message to an actor and waits for its reply. It returns the context's error if that ends first, the reply itself if
// the reply is an error, and an error that matches messages.ErrClosed if the actor has ended.
func Ask[T any](ctx context.Context, s *System, to *PID, message any) (T, error) {
	return system.Ask[T](ctx, s, to, message)
}

// Await waits for the reply to a call, as Ask does. It may be called again with another context.
func Await[T any](ctx context.Context, call *system.Call) (T, error) {
	return system.Await[T](ctx, call)
}
