package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/execbus/execbus/messages"
)

// settle makes a directory the workspace, by default the current directory, and warns if that may be a mistake. flag is the name of
// the setting for it.
func (c *config) settle(flag, dir string, std streams) (err error) {
	if c.dir, err = filepath.Abs(dir); err != nil {
		return err
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
