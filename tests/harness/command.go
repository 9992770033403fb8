// Package harness is what the commands below tests/ that run for minutes have in common: their command line, their progress,
// and what the kernel says about processes.
//
//	var command = harness.Command{Name: "bench", Usage: "Measures.", Prepare: prepare}
//	func main() { command.Main() }
//
// A command writes its result to standard output, and everything else to standard error. The first
// SIGINT, SIGTERM or SIGHUP ends the context, and the command then shows what it has; the second one ends the process.
//
// # What you must not assume
//
// That the figures of package harness are more exact than the kernel's: a process that ends meanwhile counts as nothing.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitBroken = 1 // a limit was missed, or something was found
	ExitUsage  = 2
	ExitFailed = 3 // it could not be done, or not to its end
)

// Command is a program that measures or tests for minutes.
type Command struct {
	Name  string
	Usage string
	// Prepare defines the flags. It returns a function that runs with their values and the arguments behind them.
	Prepare func(flags *flag.FlagSet) Run
}

// Run does the work of a command and returns its exit code. With an error the code is ExitFailed, or ExitUsage for one that
// Misused made.
type Run func(ctx context.Context, rest []string, out io.Writer, progress *Progress) (code int, err error)

// misused is an error about the command line.
type misused struct{ error }

// Misused makes an error about the command line.
func Misused(format string, args ...any) error { return misused{fmt.Errorf(format, args...)} }

// Main runs the command with the arguments of this process, and exits.
func (c Command) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // the second signal ends this process
	os.Exit(c.Execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Execute runs the command and returns its exit code.
func (c Command) Execute(ctx context.Context, args []string, out, progress io.Writer) int {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() {
		fmt.Fprintf(progress, "Usage: %s [flags]\n\n%s\n\nFlags:\n", c.Name, c.Usage)
		flags.PrintDefaults()
	}
	run := c.Prepare(flags)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return ExitOK
	}
	if err != nil {
		return ExitUsage
	}
	code, err := run(ctx, flags.Args(), out, NewProgress(progress))
	if err == nil {
		return code
	}
	fmt.Fprintf(progress, "%s: %v\n", c.Name, err)
	if _, usage := errors.AsType[misused](err); usage {
		return ExitUsage
	}
	return ExitFailed
}
