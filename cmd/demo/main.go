// Command demo is a small agent host in a terminal: the way to see everything of execbus at work.
//
//	demo                                  read commands, run them, show their output
//	demo --approval untrusted             the same, and ask before commands that are not known to be safe
//	demo tour                             see everything in half a minute
//	demo -- bash -lc 'echo hi; exit 3'    run one command as if execbus were not there
//
// It is an example of an embedder: it uses the root package and package messages, and nothing else of execbus. It may change
// at any time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// shutdownTime bounds the shutdown of everything.
const shutdownTime = 10 * time.Second

const usage = `Usage:
  demo [FLAG]...                           read commands, from a terminal or from a file or pipe
  demo [FLAG]... -- COMMAND [ARGUMENT]...  run one command
  demo tour [-json] [N]                    show everything at work in half a minute, or scene N, and check it
  demo --version                           print the version

  --approval POLICY   when to ask before a command runs: untrusted, on-failure, on-request (the default), never,
                      granular, or a policy in JSON
  --sandbox POLICY    what commands may do: danger-full-access (the default), read-only, workspace-write, or
                      external-sandbox if something else confines the demo. Commands are refused if the kernel
                      cannot enforce the policy
  --rules FILE        which commands are allowed, asked about or forbidden; may be repeated. The default is the
                      files *.rules in execbus/rules in your configuration directory
  --yield DURATION    see below; not with --

On a terminal each line is a script for your shell. A line with a colon in front is for the demo itself; :help lists
its commands. While a command runs in front, the prompt has its number and says where your input goes:

  - While the command reads its terminal it gets your lines. If it hides your input, as for a password, so does the
    demo. A line that comes too early waits until the command reads it, or has ended.
  - A full-screen program gets every key and the whole terminal by itself; so does any command after :fg ID. Ctrl-]
    brings you back.
  - Ctrl-C interrupts it, Ctrl-D ends its input, Ctrl-Z puts it into the background. It also goes there after the yield
    time (10s by default) if it does not read. Its output then has its number in front.

cd, export and unset on a line of their own last; in longer lines they hold for that line. A pasted loop is one command.
Tab completes, Ctrl-R finds an earlier line that contains what you typed. Ctrl-D or :quit ends the demo with everything
that runs. Colours are used unless NO_COLOR is set.

If standard input or output is not a terminal, each line of the input is run to its end, without a prompt. The exit code is
the last command's. Nobody is asked: a command that needs an answer is rejected.

A question is answered with one key: y runs the command this once; a also does not ask for it again in this session; p
allows everything that begins like it, by a rule that is written to the last FILE, or else to default.rules in your own
directory; n rejects it; x or Ctrl-C rejects it with everything else that waits for an answer; ? shows all that is known.
A key counts if it comes alone, half a second after you have stopped typing. Output waits for the answer.

With -- one command runs: on a terminal if standard input and output are one, on pipes otherwise. Input, output and
window size are passed on. On a terminal Ctrl-C goes to the command; on pipes SIGINT does.

The exit code is the command's, 128+n if signal n killed it, 127 if there is no such program, 126 if it cannot be
executed or was rejected, 125 if execbus itself failed, and 2 for wrong usage.
`

func main() { os.Exit(run(os.Args[1:])) }

// run runs the program and returns its exit code.
func run(args []string) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	version := flags.Bool("version", false, "")
	yield := flags.Duration("yield", messages.DefaultExecYield, "")
	policies := policyFlags(flags)
	if code, done := parse(flags, args, usage); done {
		return code
	}
	if *version {
		fmt.Println("execbus demo", buildVersion())
		return 0
	}
	rest := flags.Args()
	before := args[:len(args)-len(rest)]
	explicit := len(before) > 0 && before[len(before)-1] == "--"
	switch {
	case explicit && len(rest) == 0:
		return misused("there is no command after --")
	case explicit && isSet(flags, "yield"):
		return misused("-yield does not go with --: one command is waited for")
	case len(rest) > 0 && !explicit && rest[0] == "tour" && flags.NFlag() > 0:
		return misused("no flag goes before tour")
	case len(rest) > 0 && !explicit && rest[0] == "tour":
		return runTour(rest[1:])
	case len(rest) > 0 && !explicit:
		return misused(fmt.Sprintf("there is no %q; to run it as a command: demo -- %s", rest[0], strings.Join(rest, " ")))
	}
	if err := policies.check(); err != nil {
		return misused(err.Error())
	}
	switch {
	case explicit:
		return runCommand(rest, policies)
	case *yield < messages.MinYield || *yield > messages.MaxYield:
		return misused(fmt.Sprintf("-yield %v is out of range: use %v to %v", *yield, messages.MinYield, messages.MaxYield))
	default:
		return runLines(*yield, policies)
	}
}

// buildVersion returns the version that the Go tool recorded in this program.
func buildVersion() string {
	info, known := debug.ReadBuildInfo()
	if !known || info.Main.Version == "" {
		return "(unknown version)"
	}
	return info.Main.Version + ", " + info.GoVersion
}

// isSet reports whether a flag was given.
func isSet(flags *flag.FlagSet, name string) (found bool) {
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// parse parses flags; done reports that there is nothing more to do.
func parse(flags *flag.FlagSet, args []string, usage string) (code int, done bool) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return 0, true
	case err != nil:
		return misused(err.Error() + "; --help lists the flags"), true
	default:
		return 0, false
	}
}

// misused explains wrong usage.
func misused(why string) int {
	fmt.Fprintln(os.Stderr, "demo:", why)
	return 2
}

// runCommand is the mode for one command.
func runCommand(argv []string, p *policies) int {
	c := newCommand(argv)
	var approver execbus.Approver
	if c.terminal != nil {
		c.asker = newAsker(p)
		approver = c.asker
	}
	rt, session, err := p.start(approver, onScreen(c.terminal))
	if err != nil {
		return fail(err)
	}
	code := c.run(session)
	if err := shutdown(rt); err != nil {
		return fail(err)
	}
	return code
}

func shutdown(rt *execbus.Runtime) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return rt.Shutdown(ctx)
}

// fail explains an error and gives it the exit code a shell would.
func fail(err error) int {
	fmt.Fprintln(os.Stderr, "demo:", err)
	return exitCodeOf(err)
}

// exitCodeOf returns the code that a shell would give a command that did not run.
func exitCodeOf(err error) int {
	switch {
	case errors.Is(err, messages.ErrNoSuchProgram):
		return 127
	case errors.Is(err, messages.ErrSpawnFailed), errors.Is(err, messages.ErrRejected), errors.Is(err, messages.ErrAborted):
		return 126
	default:
		return 125
	}
}
