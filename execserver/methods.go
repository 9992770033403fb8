package execserver

import (
	"context"
	"encoding/json"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// later is the part of a request that may wait. Its context ends with the connection.
type later func(ctx context.Context) (any, error)

// method is how a request is handled.
type method struct {
	family string // for the errors of a handshake
	// begin is called in the order of the requests, and must not wait. It either answers, or returns the part that may wait after
	// adding an entry to connection.requests.
	begin func(c *connection, params json.RawMessage) (any, later, error)
}

// methods are all requests except initialize.
var methods = map[string]method{
	wire.ProcessStart:      {"exec", slow(start)},
	wire.ProcessRead:       {"exec", slow(read)},
	wire.ProcessWrite:      {"exec", write},
	wire.ProcessSignal:     {"exec", quick(signal)},
	wire.ProcessTerminate:  {"exec", quick(terminate)},
	wire.ProcessResize:     {"exec", quick(resize)},
	wire.ProcessCloseStdin: {"exec", slow(closeStdin)},

	wire.EnvironmentInfo:    {"environment", slow(info)},
	wire.EnvironmentStatus:  {"environment", quick(status)},
	wire.EnvironmentMachine: {"environment", slow(machine)},
	wire.EnvironmentProgram: {"environment", slow(program)},
	wire.EnvironmentPath:    {"environment", slow(path)},
	wire.EnvironmentEnclose: {"environment", slow(enclose)},

	wire.ReadFile:        {"filesystem", slow(readFile)},
	wire.WriteFile:       {"filesystem", slow(writeFile)},
	wire.CreateDirectory: {"filesystem", slow(createDirectory)},
	wire.GetMetadata:     {"filesystem", slow(getMetadata)},
	wire.ReadDirectory:   {"filesystem", slow(readDirectory)},
	wire.Remove:          {"filesystem", slow(remove)},
	wire.Copy:            {"filesystem", slow(copyFiles)},
	wire.Canonicalize:    {"filesystem", slow(canonicalize)},
	wire.Walk:            {"filesystem", slow(walk)},
	wire.OpenFile:        {"filesystem", slow(openFile)},
	wire.ReadBlock:       {"filesystem", slow(readBlock)},
	wire.CloseFile:       {"filesystem", quick(closeFile)},
}

// quick is a method that is answered at once.
func quick[P any](do func(c *connection, params P) (any, error)) func(*connection, json.RawMessage) (any, later, error) {
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
func slow[P any](begin func(c *connection, params P) (later, error)) func(*connection, json.RawMessage) (any, later, error) {
	return func(c *connection, raw json.RawMessage) (any, later, error) {
		params, err := decode[P](raw)
		if err == nil {
			err = c.enter()
		}
		if err != nil {
			return nil, nil, err
		}
		then, err := begin(c, params)
		if err != nil {
			<-c.requests
		}
		return nil, then, err
	}
}

// enter takes an entry in requests.
func (c *connection) enter() error {
	select {
	case c.requests <- struct{}{}:
		return nil
	default:
		return wire.Refuse(wire.Internal, "%d requests are unanswered, which is the limit; wait for an answer", cap(c.requests))
	}
}

// decode reads parameters. If the method has none, the parameters are ignored.
func decode[P any](raw json.RawMessage) (params P, err error) {
	if _, none := any(params).(wire.Empty); none {
		return params, nil
	}
	return params, wire.DecodeParams(raw, &params)
}
