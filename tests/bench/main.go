package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// Exit codes.
const (
	exitKept       = 0
	exitMissed     = 1
	exitUsage      = 2
	exitUnmeasured = 3
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == workerFlag {
		os.Exit(work(os.Args[2:], os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// arguments are the command line.
type arguments struct {
	only  *regexp.Regexp
	pairs int
	json  bool
	quick bool
	list  bool
}

func parse(args []string, out io.Writer) (arguments, error) {
	var a arguments
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintln(out, "Usage: bench [flags]\n\nCompares execbus with the bare way of doing the same thing and judges the ratio."+
			"\nExit code: 0 limits kept, 1 missed, 2 usage, 3 could not be measured.\n\nFlags:")
		flags.PrintDefaults()
	}
	only := flags.String("run", "", "run only the cases whose name matches `REGEXP`")
	flags.IntVar(&a.pairs, "pairs", 0, "samples of each way, `N` (default 9, with -quick 3)")
	flags.BoolVar(&a.json, "json", false, "write the result as JSON")
	flags.BoolVar(&a.quick, "quick", false, "fewer and smaller samples")
	flags.BoolVar(&a.list, "list", false, "list the cases and their limits")
	if err := flags.Parse(args); err != nil {
		return a, err
	}
	var err error
	if a.only, err = regexp.Compile(*only); err != nil {
		return a, fmt.Errorf("-run: %w", err)
	}
	if flags.NArg() > 0 {
		return a, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if a.pairs < 0 || a.pairs > 1000 {
		return a, fmt.Errorf("-pairs %d: use 1 to 1000", a.pairs)
	}
	return a, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) int {
	a, err := parse(args, progress)
	switch {
	case err == flag.ErrHelp:
		return exitKept
	case err != nil:
		fmt.Fprintln(progress, "bench:", err)
		return exitUsage
	}
	chosen := choose(a.only)
	if len(chosen) == 0 {
		fmt.Fprintf(progress, "bench: -run %q matches no case; -list names them\n", a.only)
		return exitUsage
	}
	if a.list {
		list(out, chosen)
		return exitKept
	}
	result := measure(ctx, newHarness(a, progress), chosen)
	if a.json {
		err = result.writeJSON(out)
	} else {
		err = result.writeTable(out)
	}
	if err != nil {
		fmt.Fprintln(progress, "bench:", err)
		return exitUnmeasured
	}
	return result.exitCode()
}

// all are the cases in the order in which they run.
func all() []benchCase {
	var cases []benchCase
	cases = append(cases, spawnCases()...)
	cases = append(cases, confinedCases()...)
	cases = append(cases, heapCases()...)
	cases = append(cases, execCases()...)
	cases = append(cases, besideCases()...)
	cases = append(cases, watchedCase(), firstCase(), restCase())
	cases = append(cases, askCase(), planCase(), publishCase())
	cases = append(cases, deliveryCases()...)
	cases = append(cases, echoCases()...)
	cases = append(cases, loadedCases()...)
	cases = append(cases, floodCases()...)
	cases = append(cases, mcpCase(), mcpRestCase())
	cases = append(cases, remoteCases()...)
	return append(cases, idleCase(), memoryCase(), shellsCase())
}

func choose(only *regexp.Regexp) []benchCase {
	var chosen []benchCase
	for _, c := range all() {
		if only.MatchString(c.name) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// measure runs the cases one after the other.
func measure(ctx context.Context, h *harness, cases []benchCase) *result {
	r := &result{Machine: machine()}
	r.Machine.print(h.progress)
	for _, c := range cases {
		h.say("%s: %s", c.name, c.about)
		values, err := bounded(ctx, caseWait, func() ([]value, error) { return c.run(ctx, h) })
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		r.add(c, values, err)
		if ctx.Err() != nil {
			break
		}
	}
	r.Machine.LoadAfter = loadAverage()
	return r
}
