package execbus

import (
	"context"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// ID names the session; its events carry it.
func (s *Session) ID() messages.SessionID { return s.id }

func ask[T any](ctx context.Context, s *Session, message any) (T, error) {
	return actors.Ask[T](ctx, s.runtime.system, s.supervisor, message)
}

// Exec runs a command and waits for its end or its yield time, whichever comes first. After the yield time the process
// lives on and the result names it.
func (s *Session) Exec(ctx context.Context, command messages.ExecCommand) (*messages.Result, error) {
	return ask[*messages.Result](ctx, s, command)
}

// Write sends input to a process.
func (s *Session) Write(ctx context.Context, input messages.WriteInput) (messages.Written, error) {
	return ask[messages.Written](ctx, s, input)
}

// CloseStdin ends the input of a process.
func (s *Session) CloseStdin(ctx context.Context, id messages.ProcessID) error {
	_, err := ask[messages.Done](ctx, s, messages.CloseStdin{Process: id})
	return err
}

// Resize changes the size of a process's terminal.
func (s *Session) Resize(ctx context.Context, id messages.ProcessID, size messages.Size) error {
	_, err := ask[messages.Done](ctx, s, messages.Resize{Process: id, Size: size})
	return err
}

// Signal sends a signal to a process.
func (s *Session) Signal(ctx context.Context, signal messages.Signal) error {
	_, err := ask[messages.Done](ctx, s, signal)
	return err
}

// Terminate ends a process with its tree and waits until that has come about.
func (s *Session) Terminate(ctx context.Context, id messages.ProcessID) (*messages.EndRecord, error) {
	return ask[*messages.EndRecord](ctx, s, messages.Terminate{Process: id})
}

// Watch selects the events of a session that a subscription gets.
type Watch struct {
	// Call selects the events of the process that this call starts; empty selects all.
	Call messages.CallID
	// Lossless makes a process wait for this subscriber instead of dropping output. A lossless subscriber that stops
	// reading stops the process.
	Lossless bool
}

// Subscribe opens a subscription to the session's events. Subscribe before Exec to miss nothing.
func (s *Session) Subscribe(watch Watch) (*bus.Subscription, error) {
	filter := bus.Filter{Sessions: []messages.SessionID{s.id}}
	if watch.Call != "" {
		filter.Calls = []messages.CallID{watch.Call}
	}
	return s.runtime.around.Bus.Subscribe(filter, bus.SubscribeOptions{Lossless: watch.Lossless})
}

// Close ends every process of the session and then the session.
func (s *Session) Close(ctx context.Context) error {
	_, err := ask[messages.Done](ctx, s, actors.CloseSession{By: messages.BySessionClose})
	return err
}
