package main

import (
	"flag"
	"fmt"
	"os"

	_ "github.com/execbus/execbus/sandbox" // makes this program a warden if it is executed as one
)

const wardenUsage = `Usage:
  execbus warden

Prints the path of this program. A host that cannot be executed again, or whose initialisers must not run twice, names it in
Options.Warden: then this program becomes the process from which the host's commands descend. Both must have been built with the same
version of execbus.

Exit codes: 0, 1 if the path is not known, 2 for wrong usage.

Example:
  $ execbus warden
  /usr/local/bin/execbus
`

// wardenPath runs "warden".
func wardenPath(args []string, std streams) int {
	flags := flag.NewFlagSet("warden", flag.ContinueOnError)
	if code, done := parse(flags, args, wardenUsage, std); done {
		return code
	}
	if flags.NArg() > 0 {
		return misused(std, fmt.Sprintf("warden takes no arguments; leave out %q", flags.Arg(0)), wardenUsage)
	}
	path, err := os.Executable()
	if err != nil {
		return failed(std, err)
	}
	fmt.Fprintln(std.out, path)
	return 0
}
