package client

import (
	"context"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// enclosure is a confinement whose paths the server has looked up. The server keeps the result until the session ends.
type enclosure struct {
	ptyio.Enclosure
	spawner  *spawner
	enforced messages.Enforcement
}

// Enclose implements ptyio.Spawner.
func (s *spawner) Enclose(ctx context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	if err := c.Policy.Check(); err != nil {
		return nil, err
	}
	e := enclosure{Enclosure: ptyio.Enclosed(c), spawner: s, enforced: messages.Enforcement{Level: messages.AssuranceNone}}
	if !c.Policy.Confined() {
		return e, nil
	}
	if !s.link.flow() {
		return nil, errNoSandbox
	}
	found, err := about[wire.EncloseResult](ctx, s.link, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: wireSandbox(c)})
	switch {
	case err != nil:
		return nil, err
	case found.Error != nil:
		return nil, found.Error
	case found.Enforced == nil || !found.Enforced.Level.AtLeast(demanded(c)):
		return nil, errLessSandbox
	}
	e.enforced = *found.Enforced
	return e, nil
}

// Widen asks the server anew.
func (e enclosure) Widen(ctx context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	c := e.Confinement()
	c.Additional, c.AdditionalDir = &more, dir
	return e.spawner.Enclose(ctx, c)
}

var (
	errNoSandbox = &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox",
		Detail: "the server is not known to enforce sandbox policies; use a server of execbus"}

	errLessSandbox = &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox",
		Detail: "the server enforces less than the sandbox policy demands; use another server, or accept less"}
)

// demanded returns the least assurance that a confinement must get from any server.
func demanded(c ptyio.Confinement) messages.Assurance {
	if c.Least == "" {
		return messages.AssuranceConfined
	}
	return c.Least
}

// wireSandbox writes a confinement as the protocol has it.
func wireSandbox(c ptyio.Confinement) wire.Sandbox {
	s := wire.SandboxOf(c.Policy, c.Dir, c.TempDir)
	s.Least, s.Additional = c.Least, c.Additional
	if c.AdditionalDir != "" {
		s.Cwd = new(wire.FileURI(c.AdditionalDir))
	}
	return s
}
