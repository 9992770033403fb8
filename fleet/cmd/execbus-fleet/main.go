// Command execbus-fleet runs commands on the machines of a fleet, and makes a machine one of them.
//
//	execbus-fleet up -- bash -lc 'echo hi'      a fleet of this machine alone, for one command
//	execbus-fleet up                            the same with a console, on a terminal
//	execbus-fleet up --listen 127.0.0.1:4222    the same for other programs, until it is stopped
//	execbus-fleet setup                         make the streams and books of a fleet on a NATS server
//	execbus-fleet node --id build-1             make this machine a node
//	execbus-fleet run -- make test              run a command on a node that has room
//	execbus-fleet ps                            list nodes and sessions
//	execbus-fleet attach SESSION [PROCESS]      show the output of a process, from the first byte on
//	execbus-fleet answer                        list the questions that wait, and answer one
//	execbus-fleet drain NODE                    let a node take no more sessions
//	execbus-fleet give-up NODE                  give up the sessions of a node that is not coming back
//
// Each command explains its settings with --help. Without --server or EXECBUS_FLEET_SERVER, run does what up does.
//
// A node keeps all output of commands, within quotas, in files without names, as execbus serve does: node --help says where, and how much.
//
// What you must not assume: that a command is confined. Without --sandbox, of the node or of the run, it has all rights of the node's user.
// That all output is kept where the node's user has no home directory, or none that can be used; the node warns of the latter.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus/fleet"
)

// Exit codes of execbus-fleet itself; run and up exit with the code of their command, or 128 and the number of its signal.
const (
	exitFailed  = 1
	exitMisused = 2
)

// streams are a command's input and output.
type streams struct {
	in       io.Reader
	out, err io.Writer
	attended bool // a person is at the input
}

// subcommand is one command of the program. It registers its flags and returns what it does with the arguments behind them.
type subcommand struct {
	name, arguments, summary string
	prepare                  func(*flag.FlagSet) func(context.Context, *job) error
}

// codes says what the exit code means.
func (c subcommand) codes() string {
	own := fmt.Sprintf("%d if it failed, %d for wrong usage", exitFailed, exitMisused)
	if c.name == "run" || c.name == "up" {
		return "that of the command, or 128 and the number of its signal; 130 if it was interrupted; " + own
	}
	return "0, " + own
}

// job is one call of the program.
type job struct {
	streams
	args []string
	code int // of a command that ran
	// dial connects where no server is named; nil: nothing does.
	dial func() (*nats.Conn, error)
	// command runs another command of the program.
	command func(ctx context.Context, args []string, std streams, dial func() (*nats.Conn, error)) int
}

var commands = []subcommand{
	{"up", "[-- COMMAND...]", "run a fleet of this machine alone: for one command, or until it is stopped", up},
	{"setup", "", "make the streams and books of a fleet on a NATS server", setup},
	{"node", "", "make this machine a node, until it is stopped or drained", node},
	{"run", "-- COMMAND...", "run a command on a node that has room, and show its output", run},
	{"ps", "", "list nodes and sessions, and what waits for room", ps},
	{"attach", "SESSION [PROCESS]", "show the output of a process, from the first byte on", attach},
	{"answer", "[SESSION QUESTION yes|session|no|abort]", "list the questions that wait, or answer one", decide},
	{"drain", "NODE", "let a node take no more sessions; it stops when the last has ended", drain},
	{"give-up", "NODE", "give up the sessions of a node that is not coming back", giveUp},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(runProgram(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, attended(os.Stdin)}))
}

// errMisused is an error of the arguments.
type errMisused string

func (e errMisused) Error() string { return string(e) }

// runProgram runs the program and returns its exit code.
func runProgram(ctx context.Context, args []string, std streams) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		out, code := std.out, 0
		if len(args) == 0 {
			out, code = std.err, exitMisused
		}
		fmt.Fprint(out, usage())
		return code
	}
	return runCommand(ctx, args, std, nil)
}

// runCommand runs one command.
func runCommand(ctx context.Context, args []string, std streams, dial func() (*nats.Conn, error)) int {
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		flags := flag.NewFlagSet("execbus-fleet "+c.name, flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		do := c.prepare(flags)
		help := func(to io.Writer) {
			fmt.Fprintf(to, "Usage: execbus-fleet %s\n%s.\n", strings.TrimSpace(c.name+" [flags] "+c.arguments), c.summary)
			flags.SetOutput(to)
			flags.PrintDefaults()
			fmt.Fprintf(to, "Exit code: %s.\n", c.codes())
		}
		err := flags.Parse(args[1:])
		if errors.Is(err, flag.ErrHelp) {
			help(std.out)
			return 0
		}
		j := &job{streams: std, args: flags.Args(), dial: dial, command: runCommand}
		if err != nil {
			err = errMisused(err.Error())
		} else {
			err = do(ctx, j)
		}
		if misused, is := errors.AsType[errMisused](err); is {
			fmt.Fprintf(std.err, "execbus-fleet %s: %s\n\n", c.name, misused)
			help(std.err)
			return exitMisused
		}
		if err != nil {
			fmt.Fprintf(std.err, "execbus-fleet %s: %v\n", c.name, err)
			return exitFailed
		}
		return j.code
	}
	fmt.Fprintf(std.err, "execbus-fleet: there is no command %q\n\n%s", args[0], usage())
	return exitMisused
}

func usage() string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  execbus-fleet %-7s  %s\n", c.name, c.summary)
	}
	b.WriteString("\n\"execbus-fleet COMMAND --help\" says more about each.\n")
	return b.String()
}

// server is how to reach a NATS server.
type server struct{ url, creds, nkey, ca, cert, key string }

func (s *server) flags(flags *flag.FlagSet) {
	flags.StringVar(&s.url, "server", os.Getenv("EXECBUS_FLEET_SERVER"), "URL of the NATS server (EXECBUS_FLEET_SERVER)")
	flags.StringVar(&s.creds, "creds", "", "file with the user's credentials")
	flags.StringVar(&s.nkey, "nkey", "", "file with the user's nkey seed")
	flags.StringVar(&s.ca, "ca", "", "file with the certificates that sign the server's, for TLS")
	flags.StringVar(&s.cert, "cert", "", "file with the client's certificate, for TLS; needs --key")
	flags.StringVar(&s.key, "key", "", "file with the key of that certificate")
}

// connect connects to the server.
func (s *server) connect(j *job) (*nats.Conn, error) {
	if j.dial != nil {
		return j.dial()
	}
	if s.url == "" {
		return nil, errMisused("name a server, with --server or EXECBUS_FLEET_SERVER")
	}
	options := []nats.Option{nats.Name("execbus-fleet"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) { // what is cut is connected again
			fmt.Fprintf(j.err, "execbus-fleet: the server does not allow it: %v\n", err)
		}
	})}
	if s.creds != "" {
		options = append(options, nats.UserCredentials(s.creds))
	}
	if s.nkey != "" {
		option, err := nats.NkeyOptionFromSeed(s.nkey)
		if err != nil {
			return nil, fmt.Errorf("the nkey cannot be used: %w", err)
		}
		options = append(options, option)
	}
	if s.ca != "" {
		options = append(options, nats.RootCAs(s.ca))
	}
	if s.cert != "" {
		options = append(options, nats.ClientCert(s.cert, s.key))
	}
	return fleet.Connect(s.url, options...)
}
