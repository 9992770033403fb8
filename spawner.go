package execbus

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// These types make up Options.Rules and Options.Spawner, for hosts that bring their own. Packages policy and ptyio say what
// they promise.
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

// NewSpawner makes the platform's own spawner, for a host that wraps it in another. If its warden dies, only the owners of its
// commands are told.
func NewSpawner() (Spawner, error) { return sandbox.New(sandbox.Options{}) }
