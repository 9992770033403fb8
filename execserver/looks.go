package execserver

import (
	"context"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// awaitedInput looks for a program that waits for input.
func awaitedInput(c *connection, params wire.LookParams) (later, error) {
	return look(c, params.ProcessID, inputAsked, ptyio.Inquirer.AwaitedInput, func(p *process, found *messages.AwaitedInput) any {
		p.mu.Lock()
		defer p.mu.Unlock()
		return wire.AwaitedInputResult{Input: found, Seq: p.past.now.seq} // all output that came before the look has been recorded
	})
}

// listeners looks for programs that listen.
func listeners(c *connection, params wire.LookParams) (later, error) {
	return look(c, params.ProcessID, listenersAsked, ptyio.Inquirer.Listeners, func(_ *process, found []ptyio.Listener) any {
		result := wire.ListenersResult{Listeners: []wire.Listener{}}
		for _, l := range found[:min(len(found), wire.MaxListeners)] {
			result.Listeners = append(result.Listeners, wire.Listener{Address: l.Address.String(), PID: l.PID, Program: l.Program})
		}
		return result
	})
}

var errNotObserved = &messages.Error{Code: messages.ErrUnsupported, Op: "look at process", Detail: "the server's spawner does not say what its processes wait for; wait for output or an exit instead"}

var errNotAnswered = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "look at process", Detail: "the server's spawner did not answer in time"}

// The questions of process.asked.
const (
	inputAsked = iota
	listenersAsked
	questions
)

// look puts a question to a child. One that has not answered it before is not asked again, so that a child of a host's own that never answers
// costs a goroutine for each question, however often a client asks.
func look[T any](c *connection, id string, asked int, question func(ptyio.Inquirer) (T, error), answer func(*process, T) any) (later, error) {
	p := c.session.find(id).ifRunning()
	if p == nil {
		return nil, errUnknown(id)
	}
	p.mu.Lock()
	child := p.child
	p.mu.Unlock()
	inquirer, can := child.(ptyio.Inquirer)
	if !can {
		return nil, errNotObserved
	}
	return func(ctx context.Context) (any, error) {
		found, err := inquire(ctx, p, inquirer, asked, question)
		if err != nil {
			return nil, err
		}
		return answer(p, found), nil
	}, nil
}

// inquire puts a question to the child of a process, and waits for the answer.
func inquire[T any](ctx context.Context, p *process, inquirer ptyio.Inquirer, asked int, question func(ptyio.Inquirer) (T, error)) (found T, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.session.server.options.patience.look)
	defer cancel()
	token := p.asked[asked]
	select {
	case token <- struct{}{}:
	case <-ctx.Done():
		return found, errNotAnswered
	}
	return hostcode.Call[T]{Who: "the server's spawner", Do: func(context.Context) (T, error) {
		defer func() { <-token }()
		return question(inquirer)
	}}.Wait(ctx)
}
