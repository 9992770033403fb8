package client

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Can implements ptyio.Spawner. The server answered when it looked up the confinement. Only a start shows whether it can enforce the
// limits.
func (s *spawner) Can(launch ptyio.Launch) (messages.Enforcement, error) {
	if e, ours := launch.Sandbox.(enclosure); ours {
		return e.enforced, s.refuses(launch)
	}
	return messages.Enforcement{Level: messages.AssuranceNone}, s.refuses(launch)
}

// confined reports whether a launch must not run without a sandbox.
func confined(launch ptyio.Launch) bool {
	return launch.Sandbox != nil && launch.Sandbox.Confinement().Policy.Confined()
}

// refuses returns an error if the server would ignore a part of the launch: a server ignores the parameters that it does not know.
func (s *spawner) refuses(launch ptyio.Launch) error {
	if len(launch.Inherit) > 0 {
		return unsupported("spawn", "descriptors cannot be passed to another machine; pass files by their paths")
	}
	if s.link.flow() {
		return nil
	}
	const advice = "; use a server of execbus"
	switch {
	case confined(launch):
		return errNoSandbox
	case launch.Limits != messages.Limits{}:
		return unsupported("spawn", "the server is not known to enforce limits"+advice)
	case launch.Merged && !launch.TTY:
		return unsupported("spawn", "the server cannot merge output and errors; keep them apart, or use a server of execbus")
	case launch.OnLeaderExit == messages.LeaderExitKeepsTree:
		return unsupported("spawn", "the server is not known to keep background processes"+advice)
	}
	return nil
}

// request converts a launch to the parameters of process/start.
func (s *spawner) request(launch ptyio.Launch) (*wire.StartParams, error) {
	if err := launch.Check(); err != nil {
		return nil, err
	}
	if err := s.refuses(launch); err != nil {
		return nil, err
	}
	params := &wire.StartParams{Argv: launch.Argv, Cwd: wire.FileURI(launch.Dir), Env: map[string]string{},
		TTY: launch.TTY, PipeStdin: launch.OpenStdin && !launch.TTY}
	for _, entry := range launch.Env {
		if name, value, is := strings.Cut(entry, "="); is && name != "" {
			params.Env[name] = value
		}
	}
	if launch.Argv0 != "" {
		params.Arg0 = &launch.Argv0
	}
	if s.link.flow() {
		extend(params, launch)
	} else if launch.TTY {
		sized(params.Env, launch.Size)
	}
	return params, nil
}

// sized tells the size of a terminal to programs on a server that may not know it.
func sized(env map[string]string, size messages.Size) {
	size = size.OrDefault()
	for name, n := range map[string]uint16{"LINES": size.Rows, "COLUMNS": size.Cols} {
		if _, set := env[name]; !set {
			env[name] = strconv.Itoa(int(n))
		}
	}
}

// extend adds what only servers of execbus understand.
func extend(params *wire.StartParams, launch ptyio.Launch) {
	if launch.TTY {
		params.Size, params.Unattended = new(wireSize(launch.Size)), launch.Unattended
	}
	params.Merged, params.OnLeaderExit = launch.Merged, cmp.Or(launch.OnLeaderExit, messages.LeaderExitEndsTree)
	if launch.Grace != nil {
		params.GraceMs = new(milliseconds(*launch.Grace))
	}
	if (launch.Limits != messages.Limits{}) {
		params.Limits = &launch.Limits
	}
	if launch.Sandbox != nil {
		params.Sandbox = new(wireSandbox(launch.Sandbox.Confinement()))
	}
}
