// Command execbus is execbus on the command line.
//
//	execbus policy check --rules default.rules -- git push    which rule decides about a command, and why
//
// Each command explains itself with --help. What it prints for people may change at any time; for scripts there are --json
// and the exit codes that the help names.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `Usage:
  execbus policy check --rules FILE... -- COMMAND [ARGUMENT]...    which rule decides about a command, and why

"execbus policy check --help" says more.
`

// The exit codes that all commands share.
const (
	exitFailed  = 1
	exitMisused = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("execbus", flag.ContinueOnError)
	if code, done := parse(flags, args, usage, stdout, stderr); done {
		return code
	}
	rest := flags.Args()
	switch {
	case len(rest) == 0:
		return misused(stderr, "say what to do", usage)
	case rest[0] != "policy":
		return misused(stderr, fmt.Sprintf("there is no command %q", rest[0]), usage)
	case len(rest) == 1 || rest[1] != "check":
		return misused(stderr, "policy knows one thing: policy check", usage)
	}
	return policyCheck(rest[2:], stdout, stderr)
}

// parse parses flags; done says that there is nothing more to do.
func parse(flags *flag.FlagSet, args []string, usage string, stdout, stderr io.Writer) (code int, done bool) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0, true
	case err != nil:
		return misused(stderr, err.Error(), usage), true
	}
	return 0, false
}

// misused explains wrong usage.
func misused(stderr io.Writer, why, usage string) int {
	fmt.Fprintf(stderr, "execbus: %s\n\n%s", why, usage)
	return exitMisused
}
