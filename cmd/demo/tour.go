package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/execbus/execbus"
)

const tourUsage = `Usage: demo tour [-json] [N]

Runs commands that show what execbus does, tells what happens, and checks it. It takes some seconds, needs no terminal,
writes to temporary directories that it removes, and leaves no processes behind. On a terminal it waits for the Enter key
after each scene. Ctrl-C ends it early.

  -json    one JSON object per step instead of the narration
  N        only scene N, and the scenes that it continues

The object of a step has its number, its name, what it is about, whether it held (ok), its seconds, its checks and its facts.
A step that this machine cannot show has a reason (skipped) instead of checks. The last object has the totals.

The exit code is 0 if every step held, 1 if one did not, 128+n after signal n, and 2 for wrong usage.
`

// stepTime bounds a scene. A scene normally takes a fraction of it.
const stepTime = time.Minute

// step is one scene, with the function that shows it.
type step struct {
	name, about string
	show        func(ctx context.Context, t *tour, s *scene) error
	after       int // the number of the step that this one continues; zero: none
}

func steps() []step {
	return []step{
		{"short command", "a command that ends before its yield time: one call, one answer", showShort, 0},
		{"session", "an interpreter on a terminal stays alive over several calls", showSession, 0},
		{"interrupt", "Ctrl-C interrupts what the interpreter does, and the interpreter survives it", showInterrupt, 2},
		{"flood", "a flood of output is kept within bounds, and the dropped bytes are counted exactly", showFlood, 0},
		{"omitted range", "output that an answer left out can still be read, within bounds", showOmitted, 4},
		{"slow subscriber", "a subscriber that does not read loses output, learns exactly how much, and slows nobody", showSlow, 0},
		{"limit", "70 processes against the limit of 64: the least recently used make room", showLimit, 0},
		{"tree", "daemons that left their session and ignore SIGTERM are ended with their tree", showTree, 0},
		{"question", "a command that is not known to be safe waits for a person's answer", showQuestion, 0},
		{"remembered answer", "an answer for the session covers later commands, until it is revoked", showRemembered, 0},
		{"refusal", "a refused command does not run, and its caller learns why", showRefusal, 0},
		{"amendment", "an answer becomes a rule in a file, for all commands that begin alike", showAmendment, 0},
		{"sandbox", "a command in a sandbox writes in its workspace and nowhere else, and has no network", showSandbox, 0},
		{"denied and retried", "a command that the sandbox stopped runs again without it, if a person agrees", showDenial, 0},
		{"records", "every process has exactly one recorded end, and no process is left", showRecords, 0},
	}
}

// tour is the state that the steps share.
type tour struct {
	rt      *execbus.Runtime
	session *execbus.Session
	ledger  *ledger
	calls   int

	interpreter *interpreter // kept from one step to the next
	flooded     *flood
}

// runTour runs the tour and returns the exit code.
func runTour(args []string) int {
	flags := flag.NewFlagSet("demo tour", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	if code, done := parse(flags, args, tourUsage); done {
		return code
	}
	only := 0
	if flags.NArg() > 0 {
		n, err := strconv.Atoi(flags.Arg(0))
		if err != nil || n < 1 || n > len(steps()) {
			return misused(fmt.Sprintf("there is no scene %q; use a number from 1 to %d", flags.Arg(0), len(steps())))
		}
		only = n
	}
	if flags.NArg() > 1 {
		return misused(fmt.Sprintf("tour shows one scene or all; leave out %q", flags.Arg(1)))
	}
	ctx, stop := interruptible()
	defer stop()
	s := newStory(*asJSON)
	if t := openTerminal(); t != nil && !*asJSON {
		s.pause = pauses()
	}
	code := s.tell(ctx, scenes(only))
	if received, interrupted := errors.AsType[interruption](context.Cause(ctx)); interrupted {
		fmt.Fprintln(os.Stderr, "demo: interrupted; everything has been ended")
		return 128 + int(received.Signal)
	}
	return code
}

// scenes returns the numbers of the steps to show: all, or one step and those that it continues.
func scenes(only int) (numbers []int) {
	for i := range steps() {
		if only == 0 || only == i+1 || steps()[only-1].after == i+1 {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// pauses waits for the Enter key between scenes, or for the end of the tour. The terminal delivers whole lines.
func pauses() func(context.Context) {
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		reader := bufio.NewReader(os.Stdin)
		for {
			if _, err := reader.ReadString('\n'); err != nil {
				return
			}
			lines <- struct{}{}
		}
	}()
	return func(ctx context.Context) {
		fmt.Print("\nEnter shows the next scene, Ctrl-C ends the tour. ")
		select {
		case <-lines:
		case <-ctx.Done():
		}
	}
}

// interruption is a signal that ends the tour.
type interruption struct{ syscall.Signal }

func (i interruption) Error() string { return "interrupted by " + i.Signal.String() }

// interruptible returns a context that the first signal ends. A second signal ends this process at once, and the warden ends
// everything else.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		received := <-signals
		signal.Stop(signals)
		cancel(interruption{received.(syscall.Signal)})
	}()
	return ctx, func() { cancel(nil) }
}

// begin starts the runtime and the session that all steps use.
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
