package execserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// maxEnclosures bounds the different sandboxes of one session: each holds descriptors.
const maxEnclosures = 32

// unenforceable says that a sandbox cannot be enforced.
func unenforceable(err error) error {
	if _, cancelled := errors.AsType[*wire.Fault](err); cancelled || errors.Is(err, messages.ErrCancelled) {
		return err
	}
	fault := faultOf(err)
	fault.Code, fault.Message = wire.InvalidParams, fmt.Sprintf("the sandbox cannot be enforced: %s", err)
	return fault
}

// enclosure returns the enclosure that confines a process of the session.
func (s *session) enclosure(ctx context.Context, wanted *wire.Sandbox) (ptyio.Enclosure, error) {
	if wanted == nil {
		return s.server.enclosure, nil
	}
	enclosure, err := s.enclose(ctx, wanted)
	if err != nil {
		return nil, unenforceable(err)
	}
	return enclosure, nil
}

// enclose makes the enclosure of a sandbox. If one was made for an equal sandbox before, it returns that one.
func (s *session) enclose(ctx context.Context, wanted *wire.Sandbox) (ptyio.Enclosure, error) {
	text, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	key := string(text)
	s.mu.Lock()
	known, full := s.enclosures[key], len(s.enclosures) >= maxEnclosures
	s.mu.Unlock()
	switch {
	case known != nil:
		return known, nil
	case full:
		return nil, wire.Refuse(wire.Internal, "the session has reached its limit of %d different sandboxes; open another session", maxEnclosures)
	}
	fresh, err := s.server.spawner.Enclose(ctx, ptyio.Confinement{Policy: wanted.Policy, Dir: wanted.Dir, TempDir: wanted.TempDir,
		Least: wanted.Least, Additional: wanted.Additional, AdditionalDir: wanted.AdditionalDir})
	if err != nil {
		return nil, err
	}
	return s.keep(key, fresh)
}

// keep keeps an enclosure until the session ends, unless an equal one has been made meanwhile.
func (s *session) keep(key string, fresh ptyio.Enclosure) (ptyio.Enclosure, error) {
	s.mu.Lock()
	known, ended := s.enclosures[key], s.ended
	if known == nil && !ended {
		s.enclosures[key] = fresh
	}
	s.mu.Unlock()
	switch {
	case ended:
		fresh.Release()
		return nil, wire.Refuse(wire.InvalidRequest, "the session has ended")
	case known != nil:
		fresh.Release()
		return known, nil
	}
	return fresh, nil
}

// enclose looks up where the paths of a sandbox lead, and answers with the enforcement that a start would get.
func enclose(c *connection, params wire.EncloseParams) (later, error) {
	s := c.session
	return func(ctx context.Context) (any, error) {
		if s.server.enclosure != nil {
			return nil, wire.Refuse(wire.InvalidParams, "this server confines every command itself")
		}
		enclosure, err := s.enclose(ctx, &params.Sandbox)
		if err != nil {
			return nil, unenforceable(err)
		}
		launch := ptyio.Launch{Sandbox: enclosure}
		if params.Limits != nil {
			launch.Limits = *params.Limits
		}
		enforced, err := s.server.spawner.Can(launch)
		if typed, is := errors.AsType[*messages.Error](err); is {
			return wire.EncloseResult{Error: typed}, nil
		}
		return wire.EncloseResult{Enforced: &enforced}, err
	}, nil
}
