package host

import (
	"os"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Enclosure is what a start needs of its sandbox. It stays as it is until the start has returned.
type Enclosure interface {
	ptyio.Enclosure
	Enforces() messages.Enforcement
	// Plan is what a warden is told once, with the descriptors that it refers to.
	Plan() (*confine.Plan, []*os.File)
	// Ruleset returns a Landlock rule set for a start on a terminal, which the caller closes, or, if the terminal is nil, the one
	// that all other starts share.
	Ruleset(terminal *os.File) (*os.File, error)
}

// enclosed returns the enclosure of a start and how much of it is enforced; nil and confine.None for none.
func enclosed(start ptyio.Start) (Enclosure, confine.Level) {
	e, is := start.Sandbox.(Enclosure)
	if !is {
		return nil, confine.None
	}
	switch e.Enforces().Level {
	case messages.AssuranceIsolated:
		return e, confine.Isolated
	case messages.AssuranceConfined:
		return e, confine.Confined
	}
	return e, confine.None
}

// enforced returns what is enforced for a start; nil if nothing had to be enforced.
func enforced(e Enclosure, l messages.Limits) *messages.Enforcement {
	if e == nil && l == (messages.Limits{}) {
		return nil
	}
	base := messages.Enforcement{Level: messages.AssuranceNone}
	if e != nil {
		base = e.Enforces()
	}
	held, _ := Limited(base, l) // the launch was refused if they cannot be
	return &held
}
