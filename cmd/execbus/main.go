// Command execbus is execbus on the command line.
//
//	execbus mcp                                               serve the tools to clients of the Model Context Protocol
//	execbus serve                                             run processes for other programs and other machines
//	execbus run --sandbox read-only -- ls                     run one command in a sandbox
//	execbus patch < change.patch                              apply a patch to files
//	execbus connect github.com 22                             connect through a proxy: a ProxyCommand for ssh
//	execbus play build.cast                                   play what run --record has recorded
//	execbus doctor                                            show what can be enforced on this machine
//	execbus policy check --rules default.rules -- git push    show which rule decides about a command, and why
//	execbus audit verify audit.jsonl                          say whether an audit log was changed; also audit show, audit grep
//	execbus warden                                            print the path of this program, for Options.Warden
//	execbus version                                           print the version
//
// Each command explains itself and its settings with --help. Settings are flags, environment variables and lines of a TOML file. The
// text for people may change at any time; scripts can use --json and the exit codes that the help names.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// Exit codes that all commands share.
const (
	exitFailed  = 1
	exitMisused = 2
)

// subcommand is one command of the program.
type subcommand struct {
	name    string // one word or more: "policy check"
	summary string
	run     func(args []string, std streams) int // returns the exit code
}

// commands holds all commands, in the order of the help.
var commands = []subcommand{
	{"mcp", "serve the tools to clients of the Model Context Protocol", serveMCP},
	{"serve", "run processes for other programs and other machines", serve},
	{"run", "run one command in a sandbox", runCommand},
	{"play", "play a recording of a command, or write it in another form", play},
	{"patch recover", "settle what killed programs have left of patches", recoverPatches},
	{"patch", "apply a patch to files", applyPatch},
	{"connect", "connect to a host through a proxy, for ssh", connect},
	{"doctor", "show what can be enforced on this machine, and what to change", doctor},
	{"policy check", "show which rule decides about a command, and why", policyCheck},
	{"audit verify", "say whether an audit log is complete, or was changed", auditVerify},
	{"audit show", "print an audit log", auditShow},
	{"audit grep", "print lines of an audit log", auditGrep},
	{"warden", "print the path of this program, for Options.Warden", wardenPath},
	{"version", "print the version", version},
}

// streams are a command's input and output.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// warn tells a person something.
func (s streams) warn(text string) { fmt.Fprintln(s.err, "execbus:", messages.Visible(text)) }

func main() { os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})) }

// run runs the program and returns its exit code.
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
		return misused(std, "name a command", usage())
	case rest[0] == "help" && len(rest) == 1:
		return run([]string{"--help"}, std)
	case rest[0] == "help":
		return run(append(slices.Clip(rest[1:]), "--help"), std)
	}
	for _, c := range commands {
		words := strings.Fields(c.name)
		if len(rest) >= len(words) && slices.Equal(rest[:len(words)], words) {
			return c.run(rest[len(words):], std)
		}
	}
	return misused(std, unknownCommand(rest), usage())
}

// usage returns the help of the whole program.
func usage() string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  execbus %-14s  %s\n", c.name, c.summary)
	}
	b.WriteString("\n\"execbus help COMMAND\" and \"execbus COMMAND --help\" say more about each.\n")
	return b.String()
}

// unknownCommand explains an unknown command and suggests a similar one. The first word identifies a command of two words.
func unknownCommand(words []string) string {
	var names, longer []string
	for _, c := range commands {
		first, _, more := strings.Cut(c.name, " ")
		if more && first == words[0] {
			longer = append(longer, c.name)
		}
		names = append(names, first)
	}
	if len(longer) > 0 {
		return fmt.Sprintf("%q is no command; use %s", strings.Join(words[:min(len(words), 2)], " "), strings.Join(longer, ", "))
	}
	return fmt.Sprintf("there is no command %q%s", words[0], didYouMean(words[0], "", names))
}
