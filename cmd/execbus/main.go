// Command execbus is execbus on the command line.
//
//	execbus mcp                                               serve the tools to clients of the Model Context Protocol
//	execbus run --sandbox read-only -- ls                     run one command in a sandbox
//	execbus doctor                                            what can be enforced on this machine
//	execbus policy check --rules default.rules -- git push    which rule decides about a command, and why
//	execbus warden                                            where this program is, for Options.Warden
//	execbus version                                           which execbus this is
//
// Each command explains itself with --help. What it prints for people may change at any time; for scripts there are --json
// and the exit codes that the help names.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The exit codes that all commands share.
const (
	exitFailed  = 1
	exitMisused = 2
)

// subcommand is one thing that the program does.
type subcommand struct {
	name    string // one word or more: "policy check"
	summary string
	run     func(args []string, std streams) int // returns the exit code
}

// commands are all there are, in the order of the help.
var commands = []subcommand{
	{"mcp", "serve the tools to clients of the Model Context Protocol", serveMCP},
	{"run", "run one command in a sandbox", runCommand},
	{"doctor", "what can be enforced on this machine, and what to change", doctor},
	{"policy check", "which rule decides about a command, and why", policyCheck},
	{"warden", "where this program is, for Options.Warden", wardenPath},
	{"version", "which execbus this is", version},
}

// streams are a command's input and output.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() { os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})) }

// run is the program. It returns its exit code.
func run(args []string, std streams) int {
	flags := flag.NewFlagSet("execbus", flag.ContinueOnError)
	asked := flags.Bool("version", false, "")
	if code, done := parse(flags, args, usage(), std); done {
		return code
	}
	rest := flags.Args()
	switch {
	case *asked:
		return version(rest, std)
	case len(rest) == 0:
		return misused(std, "say what to do", usage())
	}
	for _, c := range commands {
		words := strings.Fields(c.name)
		if len(rest) >= len(words) && slices.Equal(rest[:len(words)], words) {
			return c.run(rest[len(words):], std)
		}
	}
	return misused(std, unknownCommand(rest), usage())
}

// usage is the help of the whole.
func usage() string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  execbus %-14s  %s\n", c.name, c.summary)
	}
	b.WriteString("\n\"execbus COMMAND --help\" says more about each.\n")
	return b.String()
}

// unknownCommand says what could have been meant. A command of two words is known by its first.
func unknownCommand(words []string) string {
	var names []string
	for _, c := range commands {
		first, _, more := strings.Cut(c.name, " ")
		if more && first == words[0] {
			return fmt.Sprintf("%s knows one thing: %s", first, c.name)
		}
		names = append(names, first)
	}
	return fmt.Sprintf("there is no command %q%s", words[0], didYouMean(words[0], "", names))
}
