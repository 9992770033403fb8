package execserver

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// signal sends a signal. It does nothing if the process is not known, or if a signal for the leader finds it exited.
func signal(p *process, params wire.SignalParams) (any, later, error) {
	number, err := signalNumber(params.Signal)
	if err != nil {
		return nil, nil, err
	}
	if p == nil {
		return wire.Empty{}, nil, nil
	}
	p.mu.Lock()
	child, there := p.child, p.exited == nil || params.Tree
	p.mu.Unlock()
	if !there {
		return wire.Empty{}, nil, nil
	}
	scope := ptyio.Foreground
	if params.Tree {
		scope = ptyio.Tree
	}
	if err := child.Signal(number, scope); err != nil && !errors.Is(err, messages.ErrClosed) {
		fault := faultOf(err)
		fault.Code = wire.Internal
		return nil, nil, fault
	}
	return wire.Empty{}, nil, nil
}

// signalNumber returns the signal with a name.
func signalNumber(name string) (syscall.Signal, error) {
	if name == wire.Interrupt {
		return syscall.SIGINT, nil
	}
	if number := unix.SignalNum(name); number != 0 {
		return number, nil
	}
	digits, is := strings.CutPrefix(name, "SIG") // signals without a name
	if number, err := strconv.Atoi(digits); is && err == nil && number > 0 && number < 65 {
		return syscall.Signal(number), nil
	}
	return 0, wire.Refuse(wire.InvalidParams, `params.signal is %.40q; use "interrupt", or a name such as "SIGTERM"`, name)
}

// terminate begins to end a process with its tree, and does not wait for the end.
func terminate(c *connection, params wire.TerminateParams) (any, error) {
	p := c.session.find(params.ProcessID)
	if p == nil {
		return wire.TerminateResult{}, nil
	}
	grace := ptyio.DefaultGrace
	if params.GraceMs != nil {
		grace = time.Duration(*params.GraceMs) * time.Millisecond
	}
	p.mu.Lock()
	child, running, exited := p.child, p.running, p.exited != nil
	p.stopped = p.stopped || !running
	p.mu.Unlock()
	if !running {
		p.cancel()
	} else {
		child.EndTree(grace) // background children may live
	}
	return wire.TerminateResult{Running: !exited}, nil
}

// resize changes the size of a terminal.
func resize(p *process, params wire.ResizeParams) (any, later, error) {
	if p == nil {
		return nil, nil, errUnknown(params.ProcessID)
	}
	p.mu.Lock()
	child := p.child
	p.mu.Unlock()
	return wire.Empty{}, nil, child.Resize(messages.Size{Rows: params.Size.Rows, Cols: params.Size.Cols})
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
