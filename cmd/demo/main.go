// Command demo is a small agent host. It runs one command through the whole of execbus: on a terminal if it has one
// itself, on pipes otherwise.
//
//	demo -- bash -lc 'echo hi; exit 3'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

const usage = `Usage: demo -- COMMAND [ARGUMENT]...

Runs one command under execbus: on a terminal if standard input and output are one, on pipes otherwise. Input, output
and window size are passed on. On a terminal Ctrl-C goes to the command; on pipes SIGINT does.

The exit code is the command's, 128+n if signal n killed it, 127 if there is no such program, 126 if it cannot be
executed, 125 if execbus itself failed, and 2 for wrong usage.
`

func main() { os.Exit(run()) }

func run() int {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		return 2
	}
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return fail(err)
	}
	session, err := rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		return fail(err)
	}
	code := newCommand(session, flag.Args()).run()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := rt.Shutdown(ctx); err != nil {
		return fail(err)
	}
	return code
}

// fail explains an error and gives it the exit code a shell would.
func fail(err error) int {
	fmt.Fprintln(os.Stderr, "demo:", err)
	switch {
	case errors.Is(err, messages.ErrNoSuchProgram):
		return 127
	case errors.Is(err, messages.ErrSpawnFailed):
		return 126
	default:
		return 125
	}
}
