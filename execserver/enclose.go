package execserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

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

// enclosure returns the enclosure that confines a process of the session; nil if nothing does.
func (s *session) enclosure(ctx context.Context, wanted *wire.Sandbox) (enclosure ptyio.Enclosure, err error) {
	own := s.server.enclosure
	if wanted == nil {
		return own, nil
	}
	asked, err := s.server.confinement(ctx, wanted)
	switch {
	case err != nil:
	case own != nil:
		enclosure, err = s.within(ctx, own, asked)
	case asked.Policy.Confined():
		enclosure, err = s.enclose(ctx, asked)
	}
	if err != nil {
		return nil, unenforceable(err)
	}
	return enclosure, nil
}

// within returns the enclosure for a sandbox that may not allow more than the server's own. That is certain of the same one, and of
// one that allows no writing. Other writable roots are refused: confined commands can replace directories below the server's roots
// by links, so a path does not say where it leads by the time it is used.
func (s *session) within(ctx context.Context, own ptyio.Enclosure, asked ptyio.Confinement) (enclosure ptyio.Enclosure, err error) {
	limit, least := own.Confinement(), asked.Least
	switch {
	case same(limit, asked):
		enclosure = own
		if least == "" && limit.Least != "" {
			least = messages.AssuranceIsolated // the server's own was not made by the rule for the zero value
		}
	case onlyReads(asked) && len(limit.Policy.DeniedReads) == 0 && (limit.Policy.NetworkAccess || !asked.Policy.NetworkAccess):
		if enclosure, err = s.enclose(ctx, asked); err != nil {
			return nil, err
		}
	default:
		return nil, wire.Refuse(wire.InvalidParams, "params.sandbox may allow more than this server, which confines every command as %q in %s; ask for the same, for read-only, or for no sandbox", limit.Policy, limit.Dir)
	}
	best, err := s.server.spawner.Can(ptyio.Launch{Sandbox: own})
	if err != nil {
		return nil, err
	}
	got, err := s.server.spawner.Can(ptyio.Launch{Sandbox: enclosure})
	if err == nil && !(got.Level.AtLeast(best.Level) && got.Level.AtLeast(least)) {
		err = wire.Refuse(wire.InvalidParams, "this server enforces params.sandbox only as %q; leave it out for the server's own sandbox", got.Level)
	}
	return enclosure, err
}

// same reports whether two confinements allow the same, whatever the least level is.
func same(a, b ptyio.Confinement) bool {
	a.Least, b.Least = "", ""
	one, err := json.Marshal(plain(a))
	other, wrong := json.Marshal(plain(b))
	return err == nil && wrong == nil && bytes.Equal(one, other)
}

// plain returns a confinement in the form in which it can be compared: without what has no effect.
func plain(c ptyio.Confinement) ptyio.Confinement {
	c.Dir, c.Protected = filepath.Clean(c.Dir), nil
	if c.Additional.Empty() {
		c.Additional, c.AdditionalDir = nil, ""
	}
	p := &c.Policy
	if p.ExcludeTmpdirEnvVar = p.ExcludeTmpdirEnvVar || c.TempDir == ""; p.ExcludeTmpdirEnvVar {
		c.TempDir = ""
	}
	if p.Type == "" || p.Type == messages.SandboxReadOnly {
		c.Policy = messages.SandboxPolicy{Type: messages.SandboxReadOnly, NetworkAccess: p.NetworkAccess, DeniedReads: p.DeniedReads, Sockets: p.Sockets}
		c.Dir, c.TempDir = "", ""
	}
	return c
}

// onlyReads reports whether a confinement allows no writing, and reaches no sockets.
func onlyReads(c ptyio.Confinement) bool {
	reads := c.Policy.Type == messages.SandboxReadOnly || c.Policy.Type == ""
	return reads && len(c.Policy.Sockets) == 0 && c.Additional.Empty()
}

// encloses asks the spawner for an enclosure. Without one a command would not be confined.
func (s *Server) encloses(ctx context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	enclosure, err := s.spawner.Enclose(ctx, c)
	if enclosure == nil && err == nil {
		err = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "confine",
			Detail: "the spawner returned neither a sandbox nor an error", Hint: "see ptyio.Spawner.Enclose"}
	}
	return enclosure, err
}

// enclose makes an enclosure. If one was made for an equal confinement before, it returns that one.
func (s *session) enclose(ctx context.Context, asked ptyio.Confinement) (ptyio.Enclosure, error) {
	text, err := json.Marshal(plain(asked))
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
	fresh, err := s.server.encloses(ctx, asked)
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
		enclosure, err := s.enclosure(ctx, &params.Sandbox)
		if err != nil {
			return nil, err
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
