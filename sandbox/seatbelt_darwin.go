package sandbox

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/places"
	"github.com/execbus/execbus/sandbox/internal/seatbelt"
)

// seatbelted is an enclosure that the system's own sandbox enforces.
type seatbelted struct {
	confinement ptyio.Confinement
	found       *places.Found
}

// Enclose implements ptyio.Spawner.
func (*direct) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	c.Policy = c.Policy.Clone()
	found, err := places.Find(c, places.DefaultBounds)
	if err != nil {
		return nil, err
	}
	return &seatbelted{c, found}, nil
}

// Confinement implements ptyio.Enclosure.
func (s *seatbelted) Confinement() ptyio.Confinement { return s.confinement }

// Widen implements ptyio.Enclosure.
func (s *seatbelted) Widen(_ context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	c := s.confinement
	more = more.Clone()
	c.Additional, c.AdditionalDir = &more, dir
	found, err := s.found.Widen(more, dir)
	if err != nil {
		return nil, err
	}
	return &seatbelted{c, found}, nil
}

// enforces is what is enforced for its commands.
func (s *seatbelted) enforces() messages.Enforcement {
	enforced := seatbeltEnforces
	enforced.Missing = slices.Concat(enforced.Missing, s.found.Gaps)
	return enforced
}

// Check implements ptyio.Enclosure.
func (s *seatbelted) Check() error { return s.found.Check() }

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
		return messages.Enforcement{}, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox", Enforceable: messages.AssuranceConfined,
			Detail: "the policy must be enforced as " + string(least) + ", and the sandbox here is not known to do that; accept confined"}
	}
	own, ok := launch.Sandbox.(*seatbelted)
	if !ok {
		return messages.Enforcement{}, madeElsewhere()
	}
	return limitsHeld(own.enforces(), launch.Limits)
}

// seatbeltEnforces claims less than the profile contains, because the profile has never been tried on macOS.
var seatbeltEnforces = messages.Enforcement{Level: messages.AssuranceConfined, Mechanisms: []string{"seatbelt"},
	Missing: []messages.Missing{{What: "proof", Why: "the profile has not been tried on macOS"}}}

func unsupported(subject, detail string) error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: subject, Detail: detail}
}

func madeElsewhere() error {
	return unsupported("sandbox", "it was made for another way of starting programs; set the policy again")
}

// fasten puts a start under the sandbox of its launch.
func fasten(start ptyio.Start) (ptyio.Start, error) {
	if start.Sandbox == nil {
		return start, nil
	}
	own, ok := start.Sandbox.(*seatbelted)
	if !ok {
		return start, madeElsewhere()
	}
	start.Argv = seatbelt.Write(seatbelt.RulesOf(&own.found.Plan)).Argv(start.Program, start.Argv[1:]...)
	start.Program = seatbelt.Program
	return start, nil
}
