package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/execbus/execbus/internal/follow"
	"github.com/execbus/execbus/messages"
)

// settle makes a directory the workspace, by default the current directory. It refuses that one if it may be a mistake, and warns if
// another may be. flag is the name of the setting for it.
func (c *config) settle(flag, dir string, std streams) error {
	here, err := follow.Here()
	if c.dir = dir; dir == "" {
		c.dir, c.here = here, true
	}
	if err != nil && c.here && (here == "" || c.sandbox.Type == messages.SandboxWorkspaceWrite) {
		return fmt.Errorf("%w; name the workspace by its absolute path with %s", err, flag)
	}
	home, _ := os.UserHomeDir()
	if c.sandbox.Type == messages.SandboxWorkspaceWrite && (c.dir == "/" || c.dir == home) {
		fmt.Fprintf(std.err, "execbus: commands can write everything below %s; name a smaller workspace with %s\n", c.dir, flag)
	}
	return nil
}

// adviseAssurance tells the user which setting would accept less, if the machine cannot enforce enough of the sandbox. It is silent
// about other errors: a limit, for example, that cannot be enforced is refused at every level.
func adviseAssurance(err error, std streams) {
	if refusal, ok := errors.AsType[*messages.Error](err); ok && refusal.Enforceable != "" {
		fmt.Fprintf(std.err, "execbus: \"execbus doctor\" lists what is missing; %s %s accepts less\n", assuranceFlag, refusal.Enforceable)
	}
}

// The settings for the sandbox, as a person is told about them.
const (
	sandboxFlags  = "--sandbox, --network and --writable"
	assuranceFlag = "--assurance"
)
