package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/mcp"
)

const mcpUsage = `Usage:
  execbus mcp [FLAG]...                 serve one client of the Model Context Protocol on standard input and output
  execbus mcp --http ADDRESS [FLAG]...  serve clients over streamable HTTP

The tools are exec_command, write_stdin, read_output, list_processes, terminate_process, send_signal and resize. A command
that needs an approval is asked about through the client, if it can ask; otherwise it is rejected.

` + settingsUsage + `  --no-login-shell      do not run scripts in login shells, and refuse calls that ask for one
  --hide-shell          do not let calls choose the shell

On standard input and output, which nothing but the protocol uses:
  --detach              when standard input ends, let processes end by themselves, and end after them; otherwise the
                        server ends them, and itself within their grace and a second
  --with-parent         end when the process that started the server has ended, too; not for launchers that end early

Over HTTP:
  --http ADDRESS        where to listen, such as 127.0.0.1:8123; port 0 takes a free one. The URL is the first line of
                        standard output
  --token-file FILE     a file with the token that each request must send as "Authorization: Bearer TOKEN". By default
                        a token is made and printed as the second line of standard output
  --no-auth             let in everybody who can reach the address, which must be a loopback address

Exit codes: 0 when the client has gone or after SIGINT, SIGTERM or SIGHUP, 1 if something failed, 2 for wrong usage.

Examples:
  execbus mcp
  execbus mcp --approval untrusted --rules ./project.rules --dir ./project
  execbus mcp --http 127.0.0.1:8123 --token-file ~/.execbus-token
  claude mcp add execbus -- execbus mcp --approval untrusted
`

// shutdownTime bounds the shutdown of everything.
const shutdownTime = 10 * time.Second

// mcpFlags holds the flags of "mcp".
type mcpFlags struct {
	settings                                   *settings
	http, tokenFile                            string
	noLoginShell, hideShell, detach, withOwner bool
	noAuth                                     bool
}

// serveMCP runs "mcp".
func serveMCP(args []string, std streams) int {
	flags := flag.NewFlagSet("mcp", flag.ContinueOnError)
	f := mcpFlags{settings: settingsFlags(flags)}
	flags.StringVar(&f.http, "http", "", "")
	flags.StringVar(&f.tokenFile, "token-file", "", "")
	flags.BoolVar(&f.noAuth, "no-auth", false, "")
	flags.BoolVar(&f.noLoginShell, "no-login-shell", false, "")
	flags.BoolVar(&f.hideShell, "hide-shell", false, "")
	flags.BoolVar(&f.detach, "detach", false, "")
	flags.BoolVar(&f.withOwner, "with-parent", false, "")
	if code, done := parse(flags, args, mcpUsage, std); done {
		return code
	}
	switch {
	case flags.NArg() > 0:
		return misused(std, fmt.Sprintf("mcp takes no argument, and %q is one", flags.Arg(0)), mcpUsage)
	case f.http == "" && (f.tokenFile != "" || f.noAuth):
		return misused(std, "--token-file and --no-auth go with --http", mcpUsage)
	case f.http != "" && (f.detach || f.withOwner):
		return misused(std, "--detach and --with-parent do not go with --http", mcpUsage)
	case f.tokenFile != "" && f.noAuth:
		return misused(std, "--token-file and --no-auth contradict each other", mcpUsage)
	}
	os.Stdout = os.Stderr // output of a library must not appear between the lines of the protocol
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := f.serve(ctx, std); err != nil {
		return failed(std, err)
	}
	return 0
}

// serve serves until the client has gone or ctx has ended, and ends everything.
func (f *mcpFlags) serve(ctx context.Context, std streams) error {
	rt, err := f.settings.start(std)
	if err != nil {
		return err
	}
	session := f.settings.session()
	session.NoLoginShell = f.noLoginShell
	number, _ := build()
	server, err := mcp.NewServer(rt, mcp.Options{Session: session, HideShell: f.hideShell, Detach: f.detach, Version: number})
	if err == nil && f.http != "" {
		err = f.serveHTTP(ctx, server, std)
	} else if err == nil {
		if f.withOwner {
			ctx = whileParentLives(ctx)
		}
		err = server.ServeStream(ctx, std.in, std.out)
	}
	if ended := shutdown(rt); err == nil {
		err = ended
	}
	return err
}

// shutdown ends a runtime and everything that it runs.
func shutdown(rt *execbus.Runtime) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return rt.Shutdown(ctx)
}

// parentPause is how often the parent is checked. The kernel's own signal comes when the thread that started this process
// ends, which may be long before the parent does.
const parentPause = 250 * time.Millisecond

// whileParentLives returns a context that ends with the parent process.
func whileParentLives(ctx context.Context) context.Context {
	ctx, end := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		defer end()
		for os.Getppid() == parent && ctx.Err() == nil {
			select {
			case <-time.After(parentPause):
			case <-ctx.Done():
			}
		}
	}()
	return ctx
}
