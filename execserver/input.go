package execserver

import (
	"context"
	"errors"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// defaultPatience is how long a process may take to accept input if the client does not say.
const defaultPatience = messages.DefaultWritePatience

// outcome is the result of a write.
type outcome struct {
	known chan struct{} // closed when the rest is known
	taken int
	err   error
}

// writeIDs are the last writes of a process that have ids.
type writeIDs struct {
	outcomes map[string]*outcome
	order    []string // the oldest first
}

// add remembers a write. If there are too many, it forgets the oldest one.
func (w *writeIDs) add(id string, o *outcome) {
	if w.outcomes == nil {
		w.outcomes = map[string]*outcome{}
	}
	if len(w.order) == wire.RememberedIDs {
		delete(w.outcomes, w.order[0])
		w.order = w.order[1:]
	}
	w.outcomes[id] = o
	w.order = append(w.order, id)
}

// write writes input. It answers at once, or, if the client asks for that, when the process has taken the input.
func write(p *process, params wire.WriteParams) (any, later, error) {
	switch {
	case params.WriteID != nil && (*params.WriteID == "" || len(*params.WriteID) > maxID):
		return nil, nil, wire.Refuse(wire.InvalidParams, "params.writeId must not be empty, and has at most %d bytes", maxID)
	case p == nil:
		return wire.WriteResult{Status: wire.WriteUnknownProcess}, nil, nil
	}
	o, status := p.write(params)
	switch {
	case status != wire.WriteAccepted:
		return wire.WriteResult{Status: status}, nil, nil
	case params.UntilTaken:
		return nil, func(ctx context.Context) (any, error) { return o.wait(ctx, true) }, nil
	}
	select {
	case <-o.known:
		return o.result(false)
	default: // it is queued
		return wire.WriteResult{Status: wire.WriteAccepted}, nil, nil
	}
}

// write begins a write, or finds the one with the same id.
func (p *process) write(params wire.WriteParams) (*outcome, wire.WriteStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if params.WriteID != nil && p.writes.outcomes[*params.WriteID] != nil { // sent again
		return p.writes.outcomes[*params.WriteID], wire.WriteAccepted
	}
	if status := p.takesInput(); status != wire.WriteAccepted {
		return nil, status
	}
	o := &outcome{known: make(chan struct{})}
	if params.WriteID != nil {
		p.writes.add(*params.WriteID, o)
	}
	deadline := time.Now().Add(millis(params.PatienceMs, defaultPatience))
	p.child.Write(params.Chunk, deadline, func(taken int, err error) {
		o.taken, o.err = taken, err
		close(o.known)
	})
	return o, wire.WriteAccepted
}

// takesInput reports whether a write can be tried. It is called with the lock.
func (p *process) takesInput() wire.WriteStatus {
	if !p.stdin || p.closing {
		return wire.WriteStdinClosed
	}
	return wire.WriteAccepted
}

// wait waits for the outcome.
func (o *outcome) wait(ctx context.Context, exact bool) (any, error) {
	select {
	case <-o.known:
		result, _, err := o.result(exact)
		return result, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// result returns the answer to a write whose outcome is known. An exact answer says how much was taken.
func (o *outcome) result(exact bool) (any, later, error) {
	typed, _ := errors.AsType[*messages.Error](o.err)
	switch {
	case errors.Is(o.err, messages.ErrStdinClosed), errors.Is(o.err, messages.ErrClosed):
		result := wire.WriteResult{Status: wire.WriteStdinClosed}
		if exact {
			result.Taken, result.Error = &o.taken, typed
		}
		return result, nil, nil
	case exact && (o.err == nil || typed != nil):
		return wire.WriteResult{Status: wire.WriteAccepted, Taken: &o.taken, Error: typed}, nil, nil
	case o.err == nil:
		return wire.WriteResult{Status: wire.WriteAccepted}, nil, nil
	}
	fault := faultOf(o.err)
	fault.Code, fault.Message = wire.Internal, "the input was not written to the process: "+o.err.Error()
	return nil, nil, fault
}

// closeStdin ends the input after all earlier writes, and answers when the input has ended.
func closeStdin(p *process, _ wire.CloseStdinParams) (any, later, error) {
	o, status := &outcome{known: make(chan struct{})}, wire.WriteUnknownProcess
	if p != nil {
		status = p.closeStdin(o)
	}
	if status != wire.WriteAccepted {
		return wire.WriteResult{Status: status}, nil, nil
	}
	return nil, func(ctx context.Context) (any, error) { return o.wait(ctx, false) }, nil
}

func (p *process) closeStdin(o *outcome) wire.WriteStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	if status := p.takesInput(); status != wire.WriteAccepted {
		return status
	}
	p.closing = !p.tty
	p.child.CloseStdin(func(err error) {
		o.err = err
		close(o.known)
	})
	return wire.WriteAccepted
}
