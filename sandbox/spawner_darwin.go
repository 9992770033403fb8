package sandbox

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/host"
	"github.com/execbus/execbus/sandbox/internal/paths"
	"github.com/execbus/execbus/sandbox/internal/seatbelt"
)

// spawner starts programs under the system's own sandbox.
type spawner struct{ direct *host.Direct }

func newSpawner(Options) (ptyio.Spawner, error) { return &spawner{host.NewDirect()}, nil }

// Spawn implements ptyio.Spawner.
func (s *spawner) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	enforced, err := s.Can(launch)
	if err != nil {
		return nil, err
	}
	within := host.Within{By: s.direct}
	if launch.Sandbox != nil || launch.Limits != (messages.Limits{}) || launch.Executions != nil {
		within.Enforced = &enforced
	}
	if own, is := launch.Sandbox.(*seatbelted); is {
		within.Enclosure = &own.made
	}
	return ptyio.Spawn(ctx, launch, within)
}

// Resolver implements ptyio.Spawner.
func (*spawner) Resolver() ptyio.Resolver { return ptyio.Local() }

// Prompt implements ptyio.Prompt.
func (*spawner) Prompt() {}

// Close implements ptyio.Spawner.
func (s *spawner) Close() error { return s.direct.Close() }

// seatbelted is an enclosure that the system's own sandbox enforces.
type seatbelted struct {
	*paths.Found
	confinement ptyio.Confinement
	made        host.Enclosure
}

func newSeatbelted(c ptyio.Confinement, found *paths.Found) *seatbelted {
	return &seatbelted{found, c, host.Enclosure{Profile: seatbelt.Write(seatbelt.RulesOf(&found.Plan))}}
}

// Enclose implements ptyio.Spawner.
func (*spawner) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	c.Policy = messages.Clone(c.Policy)
	found, err := paths.Find(c, paths.DefaultBounds)
	if err != nil {
		return nil, err
	}
	return newSeatbelted(c, found), nil
}

// Confinement implements ptyio.Enclosure.
func (s *seatbelted) Confinement() ptyio.Confinement { return s.confinement }

// Widen implements ptyio.Enclosure.
func (s *seatbelted) Widen(_ context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	c := s.confinement
	more = messages.Clone(more)
	c.Additional, c.AdditionalDir = &more, dir
	found, err := s.Found.Widen(more, dir)
	if err != nil {
		return nil, err
	}
	return newSeatbelted(c, found), nil
}

// Release implements ptyio.Enclosure: nothing is held.
func (*seatbelted) Release() {}

// Can implements ptyio.Spawner.
func (s *spawner) Can(launch ptyio.Launch) (messages.Enforcement, error) {
	enforced, err := s.confines(launch)
	if launch.Executions != nil {
		enforced = ptyio.Unseen(enforced, "this system shows nobody what programs execute")
	}
	return enforced, err
}

func (*spawner) confines(launch ptyio.Launch) (messages.Enforcement, error) {
	if launch.Sandbox == nil {
		return limited(messages.Enforcement{Level: messages.AssuranceNone}, launch.Limits)
	}
	if c := launch.Sandbox.Confinement(); c.Proxy != nil && !c.Policy.NetworkAccess {
		return messages.Enforcement{}, unsupported("sandbox", "the commands may talk to named hosts only, which takes the namespaces of Linux; give them no network or all of it")
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
		return messages.Enforcement{}, unsupported("sandbox", "it was made for another way of starting programs; set the policy again")
	}
	enforced := seatbeltEnforces
	enforced.Missing = slices.Concat(enforced.Missing, own.Gaps)
	return limited(enforced, launch.Limits)
}

// seatbeltEnforces claims less than the profile contains, because the profile has never been tried on macOS.
var seatbeltEnforces = messages.Enforcement{Level: messages.AssuranceConfined, Mechanisms: []string{"seatbelt"},
	Missing: []messages.Missing{{What: "proof", Why: "the profile has not been tried on macOS"}}}

func unsupported(subject, detail string) error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: subject, Detail: detail}
}
