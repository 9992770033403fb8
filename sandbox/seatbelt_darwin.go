package sandbox

import (
	"context"
	"path/filepath"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/seatbelt"
)

// seatbelted is an enclosure that the system's own sandbox enforces.
type seatbelted struct {
	confinement ptyio.Confinement
	looked      *seatbelt.Looked
}

// Enclose implements ptyio.Spawner.
func (*direct) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	return enclose(c)
}

func enclose(c ptyio.Confinement) (ptyio.Enclosure, error) {
	looked, err := seatbelt.Look(c)
	if err != nil {
		return nil, err
	}
	return &seatbelted{c, looked}, nil
}

// Confinement implements ptyio.Enclosure.
func (s *seatbelted) Confinement() ptyio.Confinement { return s.confinement }

// Widen implements ptyio.Enclosure.
func (s *seatbelted) Widen(_ context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	c := s.confinement
	c.Additional, c.AdditionalDir = &more, dir
	return enclose(c)
}

// Check implements ptyio.Enclosure.
func (s *seatbelted) Check() error { return s.looked.Check() }

// Release implements ptyio.Enclosure: nothing is held.
func (*seatbelted) Release() {}

// Can implements ptyio.Spawner.
func (*direct) Can(launch ptyio.Launch) (messages.Enforcement, error) {
	if launch.Sandbox == nil {
		return limitsHeld(messages.Enforcement{Level: messages.AssuranceNone}, launch.Limits)
	}
	if name := launch.Argv0; name != "" && filepath.Base(name) != filepath.Base(launch.Argv[0]) {
		return messages.Enforcement{}, unsupported("argv0", "the sandbox here starts programs under their own names only; leave the other name out")
	}
	if least := launch.Sandbox.Confinement().Least; !messages.AssuranceConfined.AtLeast(least) {
		return messages.Enforcement{}, unsupported("sandbox", "the policy must be enforced as "+string(least)+
			", and the sandbox here is not known to do that; accept confined")
	}
	return limitsHeld(seatbeltEnforces, launch.Limits)
}

// seatbeltEnforces claims less than the profile contains, because the profile has never been tried on macOS.
var seatbeltEnforces = messages.Enforcement{Level: messages.AssuranceConfined, Mechanisms: []string{"seatbelt"},
	Missing: []messages.Missing{{What: "proof", Why: "the profile has not been tried on macOS"}}}

func unsupported(subject, detail string) error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: subject, Detail: detail}
}

// fasten puts a start under the sandbox of its launch.
func fasten(start ptyio.Start) (ptyio.Start, error) {
	if start.Sandbox == nil {
		return start, nil
	}
	own, ok := start.Sandbox.(*seatbelted)
	if !ok {
		return start, unsupported("sandbox", "it was made for another way of starting programs; set the policy again")
	}
	start.Argv = seatbelt.Write(own.looked.Rules).Argv(start.Program, start.Argv[1:]...)
	start.Program = seatbelt.Program
	return start, nil
}
