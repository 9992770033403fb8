// Command demo is a small agent host in a terminal: the way to see everything of execbus at work.
//
//	demo                                  read commands and run them on this terminal
//	demo --approval untrusted             the same, and ask before commands that are not known to be safe
//	demo tour                             see everything in half a minute
//	demo -- bash -lc 'echo hi; exit 3'    run one command as if execbus were not there
//
// It is an example of an embedder: it uses the root package and package messages, and nothing else of execbus. It may change
// at any time.
//
//	main.go, policies.go, guard.go    the command line, the session's options, a terminal that is restored whatever happens
//	host.go, keys.go, commands.go     the host: what happens to commands, what becomes of keys, the commands with a colon
//	pipes.go                          one command without a terminal
//	tour.go, scenes.go                the loop that plays the tour, and the tour
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// shutdownTime bounds the shutdown of everything.
const shutdownTime = 10 * time.Second

const usage = `Usage:
  demo [FLAG]...                           read commands from a terminal
  demo [FLAG]... -- COMMAND [ARGUMENT]...  run one command
  demo tour [N]                            show everything at work in half a minute, or scene N, and check it

  --approval POLICY   when to ask before a command runs: untrusted, on-failure, on-request (the default), never,
                      granular, or a policy in JSON
  --sandbox POLICY    what commands may do: danger-full-access (the default), read-only, workspace-write, or
                      external-sandbox if something else confines the demo. Commands are refused if the kernel
                      cannot enforce the policy
  --rules FILE        which commands are allowed, asked about or forbidden; may be repeated. The default is the
                      files *.rules in execbus/rules in your configuration directory

On a terminal each line is a script for your shell, and several pasted lines are one script. A line with a colon in front
is for the demo itself; :help lists its commands.

A command has the whole terminal until it ends: it gets every key, Ctrl-C too, and what it does not read is lost with it.
Only Ctrl-Z is for the demo and puts the command into the background. Its output is then kept, within bounds, and :fg ID goes on where you have left off. Ctrl-D or
:quit ends the demo with everything that runs, and the demo says what it has ended. Colours are used unless NO_COLOR is set.

A question is answered with one key: y runs the command this once; a also does not ask for it again in this session; p
allows everything that begins like it, by a rule that is written to the last FILE, or else to default.rules in your own
directory; n rejects it; x or Ctrl-C rejects it with everything else that waits for an answer; ? shows all that is known.
A key counts if it comes alone, half a second after you have stopped typing. Output waits for the answer.

With -- one command runs: on a terminal if standard input and output are one, on pipes otherwise. Input, output and
window size are passed on. On a terminal Ctrl-C goes to the command; on pipes SIGINT does, and nobody is asked: a command
that needs an answer is rejected.

The tour needs no terminal, writes to temporary directories that it removes, and leaves no processes behind. On a terminal
it waits for the Enter key after each scene. Its exit code is 0 if every scene held, and 1 if one did not.

The exit code is the command's, 128+n if signal n killed it, 127 if there is no such program, 126 if it cannot be
executed or was rejected, 125 if execbus itself failed, and 2 for wrong usage.
`

func main() { os.Exit(run(os.Args[1:])) }

// run runs the program and returns its exit code.
func run(args []string) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	policies := policyFlags(flags)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return 0
	case err != nil:
		return misused(err.Error() + "; --help lists the flags")
	}
	rest := flags.Args()
	before := args[:len(args)-len(rest)]
	explicit := len(before) > 0 && before[len(before)-1] == "--"
	switch terminal := openTerminal(); {
	case explicit && len(rest) == 0:
		return misused("there is no command after --")
	case explicit && terminal == nil:
		return runOnPipes(rest, policies)
	case explicit:
		return runOnTerminal(terminal, rest, policies)
	case len(rest) > 0 && rest[0] == "tour" && flags.NFlag() > 0:
		return misused("no flag goes before tour")
	case len(rest) > 0 && rest[0] == "tour":
		return runTour(rest[1:])
	case len(rest) > 0:
		return misused(fmt.Sprintf("there is no %q; to run it as a command: demo -- %s", rest[0], strings.Join(rest, " ")))
	case terminal == nil:
		return misused("commands are read from a terminal, and input or output is none; to run one command: demo -- COMMAND")
	default:
		return runOnTerminal(terminal, nil, policies)
	}
}

// usageError is an error in what the user has typed.
type usageError string

func (e usageError) Error() string { return string(e) }

// misused explains wrong usage.
func misused(why string) int { return fail(usageError(why)) }

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
	_, misused := errors.AsType[usageError](err)
	switch {
	case misused:
		return 2
	case errors.Is(err, messages.ErrNoSuchProgram):
		return 127
	case errors.Is(err, messages.ErrSpawnFailed), errors.Is(err, messages.ErrRejected), errors.Is(err, messages.ErrAborted):
		return 126
	default:
		return 125
	}
}
