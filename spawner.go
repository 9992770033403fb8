package execbus

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// What Options.Rules and Options.Spawner are made of, for hosts that bring their own. Packages policy and ptyio say what
// these types promise.
type (
	RuleLayer   = rules.Layer
	Spawner     = ptyio.Spawner
	Launch      = ptyio.Launch
	Child       = ptyio.Child
	ChildEvent  = ptyio.Event
	ChildExited = ptyio.Exited
	Confinement = ptyio.Confinement
	Enclosure   = ptyio.Enclosure
	Assurance   = messages.Assurance
	Enforcement = messages.Enforcement
)

// NewSpawner makes the platform's own spawner, for a host that puts another around it. If its warden dies nobody is told but
// those whose commands it took along.
func NewSpawner() (Spawner, error) { return sandbox.New(sandbox.Options{}) }
