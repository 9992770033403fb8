package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// Exit codes.
const (
	exitOK     = 0
	exitBroken = 1
	exitUsage  = 2
	exitFailed = 3
)

const (
	defaultDuration = 10 * time.Minute
	defaultParallel = 8
	maxParallel     = 256
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // the second signal ends this process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// arguments are the command line.
type arguments struct {
	duration time.Duration
	commands int // if not 0, so many short commands instead of the mix
	seed     uint64
	parallel int
	plot     string
	json     bool
	only     *regexp.Regexp
}

const usage = `Usage: soak [flags]

Works execbus for a long time, looks for anything that grows, and checks every answer.
Exit code: 0 ok, 1 drift or a broken invariant, 2 usage, 3 could not run to its end.
go doc ./tests/soak says what the numbers mean.

Flags:`

func parse(args []string, out io.Writer) (arguments, error) {
	var a arguments
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintln(out, usage)
		flags.PrintDefaults()
	}
	flags.DurationVar(&a.duration, "duration", defaultDuration, "how long to work, `TIME`")
	flags.IntVar(&a.commands, "commands", 0, "run `N` short commands instead of the mix, however long that takes")
	flags.Uint64Var(&a.seed, "seed", 0, "`NUMBER` from which all choices follow (default: drawn, and printed)")
	flags.IntVar(&a.parallel, "parallel", defaultParallel, "`N` workers at the same time")
	flags.StringVar(&a.plot, "plot", "", "write a plot of all samples to `FILE`, as SVG")
	flags.BoolVar(&a.json, "json", false, "write the result as JSON")
	only := flags.String("only", "", "use only the scenarios whose name matches `REGEXP`")
	if err := flags.Parse(args); err != nil {
		return a, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["seed"] {
		a.seed = uint64(rand.Uint32()) // short enough to type
	}
	var err error
	if a.only, err = regexp.Compile(*only); err != nil {
		return a, fmt.Errorf("-only: %w", err)
	}
	return a, a.check(given, flags.Args())
}

func (a arguments) check(given map[string]bool, rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case given["commands"] && given["duration"]:
		return fmt.Errorf("-commands and -duration exclude each other: run them one after the other")
	case given["commands"] && given["only"]:
		return fmt.Errorf("-commands and -only exclude each other: there is only one kind of command")
	case given["commands"] && a.commands < 1:
		return fmt.Errorf("-commands %d: use 1 or more", a.commands)
	case a.duration < time.Second:
		return fmt.Errorf("-duration %v: use 1s or more", a.duration)
	case a.parallel < 1 || a.parallel > maxParallel:
		return fmt.Errorf("-parallel %d: use 1 to %d", a.parallel, maxParallel)
	case a.commands == 0 && len(matching(a.only)) == 0:
		return fmt.Errorf("-only %q matches no scenario; there are %s", a.only, scenarioNames())
	}
	return nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) int {
	a, err := parse(args, progress)
	switch {
	case err == flag.ErrHelp:
		return exitOK
	case err != nil:
		fmt.Fprintln(progress, "soak:", err)
		return exitUsage
	}
	s, err := newSoak(a, progress)
	if err != nil {
		fmt.Fprintln(progress, "soak:", err)
		return exitFailed
	}
	s.run(ctx)
	r := s.report()
	if err := s.write(r, out); err != nil {
		fmt.Fprintln(progress, "soak:", err)
		if r.exitCode() == exitOK {
			return exitFailed
		}
	}
	return r.exitCode()
}

// dice returns the random numbers of one step. They follow from the seed, the worker and the step.
func (a arguments) dice(worker, step int) *rand.Rand {
	return rand.New(rand.NewPCG(a.seed, uint64(worker)<<40|uint64(step)))
}

// nonce distinguishes this run's processes from those of any other.
func nonce() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())
	return fmt.Sprintf("soak-%d-%x", os.Getpid(), b)
}

// write writes the results. If the plot cannot be written, the table is shown all the same.
func (s *soak) write(r *report, out io.Writer) error {
	show := r.writeTable
	if s.json {
		show = r.writeJSON
	}
	err := show(out)
	if s.plot != "" {
		err = errors.Join(err, os.WriteFile(s.plot, s.sampler.series.plot(s.title(), s.judge), 0o644))
	}
	return err
}
