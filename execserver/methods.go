package execserver

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// later is the part of a request that may wait. Its context ends with the connection.
type later func(ctx context.Context) (any, error)

// method begins a request. It is called in the order of the requests, and must not wait. It either answers, or returns the part that may
// wait if there is room for that.
type method = func(c *connection, params json.RawMessage) (any, later, error)

// families are the kinds of methods, by their first words, for the errors of a handshake.
var families = map[string]string{"process": "exec", "environment": "environment", "fs": "filesystem"}

// methods are all requests except initialize.
var methods = map[string]method{
	wire.ProcessStart:      slow(start),
	wire.ProcessRead:       slow(read),
	wire.ProcessWrite:      ordered(write, func(p wire.WriteParams) (string, bool) { return p.ProcessID, p.UntilTaken }),
	wire.ProcessSignal:     ordered(signal, func(p wire.SignalParams) (string, bool) { return p.ProcessID, false }),
	wire.ProcessTerminate:  quick(terminate),
	wire.ProcessResize:     ordered(resize, func(p wire.ResizeParams) (string, bool) { return p.ProcessID, false }),
	wire.ProcessCloseStdin: ordered(closeStdin, func(p wire.CloseStdinParams) (string, bool) { return p.ProcessID, true }),

	wire.ProcessWatchTerminal: ordered(watchTerminal, func(p wire.WatchTerminalParams) (string, bool) { return p.ProcessID, false }),
	wire.ProcessPlaceCursor:   ordered(placeCursor, func(p wire.PlaceCursorParams) (string, bool) { return p.ProcessID, false }),

	wire.ProcessAwaitedInput: slow(awaitedInput),
	wire.ProcessListeners:    slow(listeners),

	wire.EnvironmentInfo:    query(info),
	wire.EnvironmentStatus:  quick(status),
	wire.EnvironmentMachine: query(machine),
	wire.EnvironmentProgram: query(program),
	wire.EnvironmentPath:    query(path),
	wire.EnvironmentLeads:   query(leads),
	wire.EnvironmentEnclose: query(enclose),

	wire.ReadFile:        slow(readFile),
	wire.WriteFile:       slow(writeFile),
	wire.CreateDirectory: slow(createDirectory),
	wire.GetMetadata:     slow(getMetadata),
	wire.ReadDirectory:   slow(readDirectory),
	wire.Remove:          slow(remove),
	wire.Copy:            slow(copyFiles),
	wire.Canonicalize:    slow(canonicalize),
	wire.Walk:            slow(walk),
	wire.OpenFile:        slow(openFile),
	wire.ReadBlock:       slow(readBlock),
	wire.CloseFile:       slow(closeFile),
}

// quick is a method that is answered at once.
func quick[P any](do func(c *connection, params P) (any, error)) method {
	return func(c *connection, raw json.RawMessage) (any, later, error) {
		params, err := decode[P](raw)
		if err != nil {
			return nil, nil, err
		}
		result, err := do(c, params)
		return result, nil, err
	}
}

// slow is a method that may wait.
func slow[P any](begin func(c *connection, params P) (later, error)) method {
	return func(c *connection, raw json.RawMessage) (any, later, error) {
		params, err := decode[P](raw)
		if err == nil {
			err = c.room(raw)
		}
		if err != nil {
			return nil, nil, err
		}
		then, err := begin(c, params)
		return nil, then, err
	}
}

// query is a method that waits and has nothing to do before.
func query[P any](ask func(ctx context.Context, c *connection, params P) (any, error)) method {
	return slow(func(c *connection, params P) (later, error) {
		return func(ctx context.Context) (any, error) { return ask(ctx, c, params) }, nil
	})
}

// ordered is a method about a process that takes effect after the start of the process, and after everything before it on the connection
// that concerns the process. Until then the request waits. do gets nil if there is no such process, and must not wait. about returns
// the process's id, and whether the request may wait in any case.
func ordered[P any](do func(p *process, params P) (any, later, error), about func(P) (string, bool)) method {
	return func(c *connection, raw json.RawMessage) (any, later, error) {
		params, err := decode[P](raw)
		if err != nil {
			return nil, nil, err
		}
		id, waits := about(params)
		p := c.session.find(id)
		u := &operation{on: []string{"process " + strconv.Quote(id)}, changes: true}
		first := c.beginOperation(u)
		at := func() (any, later, error) {
			defer c.endOperation(u)
			return do(p.ifRunning(), params)
		}
		begun := len(first) == 0 && p.startIsOver()
		if !begun || waits {
			if err := c.room(raw); err != nil {
				c.endOperation(u)
				return nil, nil, err
			}
		}
		if begun {
			return at()
		}
		return nil, func(ctx context.Context) (any, error) {
			if err := awaitOperations(ctx, first); err != nil {
				return nil, err
			}
			if p != nil {
				select {
				case <-p.started:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			result, then, err := at()
			if then != nil {
				return then(ctx)
			}
			return result, err
		}, nil
	}
}

// decode reads parameters. If the method has none, the parameters are ignored.
func decode[P any](raw json.RawMessage) (params P, err error) {
	if _, none := any(params).(wire.Empty); none {
		return params, nil
	}
	return params, wire.DecodeParams(raw, &params)
}
