package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/execbus/execbus"
)

const tourUsage = `Usage: demo tour [-json]

Runs commands that show what execbus does, tells what happens, and checks it. It takes some seconds, needs no terminal,
writes to temporary directories that it removes, and leaves no processes behind. Ctrl-C ends it early.

  -json    one JSON object per step instead of the narration

A step's object has its number, name, what it is about, whether it held (ok), its seconds, its checks and facts; a step
that this machine cannot show has a reason (skipped) instead of checks. The last object is the sum.

The exit code is 0 if every step held, 1 if one did not, 128+n after signal n, and 2 for wrong usage.
`

// tourTime bounds the whole tour. It takes a fraction of that.
const tourTime = 2 * time.Minute

// step is one thing to show.
type step struct {
	name, about string
	show        func(ctx context.Context, t *tour, s *scene) error
}

func steps() []step {
	return []step{
		{"short command", "a command that ends before its yield time: one call, one answer", showShort},
		{"session", "an interpreter on a terminal lives on over several calls", showSession},
		{"interrupt", "Ctrl-C reaches the program that runs, and the interpreter survives it", showInterrupt},
		{"flood", "more output than anybody wants is kept in bounds, and what was dropped is counted exactly", showFlood},
		{"omitted range", "what an answer left out can still be read, as far as it is remembered", showOmitted},
		{"slow subscriber", "who does not read loses output, learns exactly which, and slows nobody", showSlow},
		{"limit", "70 processes against the limit of 64: the ones used longest ago make room", showLimit},
		{"tree", "daemons that left their session and ignore SIGTERM are ended with their tree", showTree},
		{"question", "what is not known to be safe is asked about, and waits for the answer", showQuestion},
		{"remembered answer", "what was allowed for the session is not asked about again, until that is revoked", showRemembered},
		{"refusal", "a command that is refused does not run, and its caller learns why", showRefusal},
		{"amendment", "an answer becomes a rule in a file, and holds for all that begins alike", showAmendment},
		{"denied and retried", "what the sandbox has stopped runs again without it, if a person agrees", showDenial},
		{"records", "every process has exactly one end on record, and nothing is left", showRecords},
	}
}

// tour is what the steps share.
type tour struct {
	rt      *execbus.Runtime
	session *execbus.Session
	ledger  *ledger
	calls   int

	interpreter *interpreter // from one step to the next
	flooded     *flood
}

// runTour is the program's second mode.
func runTour(args []string) int {
	flags := flag.NewFlagSet("demo tour", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	if code, done := parse(flags, args, tourUsage); done {
		return code
	}
	if flags.NArg() > 0 {
		return misused(fmt.Sprintf("tour takes no argument such as %q", flags.Arg(0)), tourUsage)
	}
	ctx, stop := interruptible()
	defer stop()
	code := newStory(*asJSON).tell(ctx)
	if received, interrupted := errors.AsType[interruption](context.Cause(ctx)); interrupted {
		fmt.Fprintln(os.Stderr, "demo: interrupted; everything has been ended")
		return 128 + int(received.Signal)
	}
	return code
}

// interruption is a signal that ends the tour.
type interruption struct{ syscall.Signal }

func (i interruption) Error() string { return "interrupted by " + i.Signal.String() }

// interruptible is a context that the first signal ends. The second one ends us at once, and the warden the rest.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ctx, stop := context.WithTimeout(ctx, tourTime)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		received := <-signals
		signal.Stop(signals)
		cancel(interruption{received.(syscall.Signal)})
	}()
	return ctx, stop
}

// begin starts what all steps use.
func begin() (*tour, error) {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	session, err := rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		return nil, err
	}
	t := &tour{rt: rt, session: session, ledger: newLedger()}
	return t, t.ledger.follow(session)
}

// call names the next call.
func (t *tour) call() string {
	t.calls++
	return fmt.Sprintf("tour %d", t.calls)
}
