package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// scene is a part of the tour: a runtime and a session of its own, and what is done there.
type scene struct {
	name, about string
	needs       string                  // a program without which it cannot be shown
	approval    messages.ApprovalMode   // empty: the default
	answer      messages.Decision       // of the person who is asked
	sandbox     *messages.SandboxPolicy // nil: none
	slow        bool                    // events are read only when the request has been answered
	steps       []step
}

// step is one request, and what must be seen then: in the events up to the answer, in the answer, in the output. It is over when
// all of that was seen.
type step struct {
	say    string
	do     any // see perform
	see    []claim
	unseen []claim // must not be seen
	fails  error   // the error that answers it
}

// claim is a sentence that holds if the pattern is seen.
type claim struct{ sentence, pattern string }

// Requests of steps that package messages has no type for.
type (
	// start starts commands that are left running.
	start struct {
		messages.ExecCommand
		times int // zero: once
	}
	revokeAll    struct{}
	terminateAll struct{}
	count        struct{}
)

// sceneTime bounds a scene. A scene normally takes a fraction of it.
const sceneTime = time.Minute

// tailKept bounds the output, in bytes, in which the claims of a step are looked for.
const tailKept = 64 << 10

// runTour plays the tour and returns the exit code.
func runTour(args []string) int {
	all, only := scenes(), 0
	switch n, err := strconv.Atoi(strings.Join(args, " ")); {
	case len(args) == 0:
	case args[0] == "-h" || args[0] == "--help":
		fmt.Print(usage)
		return 0
	case err != nil || n < 1 || n > len(all):
		return misused(fmt.Sprintf("there is no scene %q; use a number from 1 to %d", strings.Join(args, " "), len(all)))
	default:
		only = n
	}
	ctx, stop := interruptible()
	defer stop()
	pause := func(context.Context) {}
	if openTerminal() != nil {
		pause = pauses()
	}
	began, shown, skipped, failed := time.Now(), 0, 0, 0
	for i, s := range all {
		if only != 0 && only != i+1 {
			continue
		}
		if shown > 0 {
			pause(ctx)
		}
		if ctx.Err() != nil {
			break
		}
		shown++
		fmt.Printf("\n%s\n", paint(bold, fmt.Sprintf("%d. %s: %s", i+1, s.name, s.about)))
		switch err := s.play(ctx); {
		case ctx.Err() != nil: // the interruption may also have made the scene fail
		case errors.As(err, new(cannot)):
			skipped++
			tell("not shown here: %v", err)
		case err != nil:
			failed++
			tell("%s", paint(red, "error: "+err.Error()))
		}
	}
	if received, interrupted := errors.AsType[interruption](context.Cause(ctx)); interrupted {
		fmt.Fprintln(os.Stderr, "demo: interrupted; everything has been ended")
		return 128 + int(received.Signal)
	}
	if failed > 0 {
		fmt.Printf("\n%s\n", paint(red, fmt.Sprintf("%d of %d scenes did not hold.", failed, shown)))
		return 1
	}
	text := fmt.Sprintf("Scenes that held: %d, in %.1f s.", shown-skipped, time.Since(began).Seconds())
	if skipped > 0 {
		text += fmt.Sprintf(" %d could not be shown on this machine.", skipped)
	}
	fmt.Printf("\n%s\n", paint(green, text))
	return 0
}

// interruption is a signal that ends the demo.
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

// pauses waits for the Enter key between scenes, or for the end of the tour. The terminal delivers whole lines.
func pauses() func(context.Context) {
	lines := make(chan struct{})
	go func() {
		for reader := bufio.NewReader(os.Stdin); ; lines <- struct{}{} {
			if _, err := reader.ReadString('\n'); err != nil {
				close(lines)
				return
			}
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

// cannot says why a scene cannot be shown on this machine.
type cannot string

func (c cannot) Error() string { return string(c) }

var errEventsEnded = errors.New("the events ended before the scene")

// tell prints a line of the narration.
func tell(format string, values ...any) { fmt.Printf("   "+format+"\n", values...) }

// stage is a scene that is being played.
type stage struct {
	*scene
	session *execbus.Session
	events  chan messages.Event
	calls   int

	process  messages.ProcessID         // the newest
	numbers  map[messages.ProcessID]int // of the processes, from 1 in the order of their starts
	ends     map[messages.ProcessID]int // how many ends each had
	received map[messages.ProcessID]int // bytes of output
	shown    strings.Builder            // of this step: what the person is shown
	output   []byte                     // of this step, the newest part
}

// play plays a scene. It checks, besides what the scene says, that every process has exactly one end.
func (s *scene) play(ctx context.Context) (err error) {
	if _, err := exec.LookPath(s.needs); s.needs != "" && err != nil {
		return cannot(err.Error())
	}
	dir, err := os.MkdirTemp("", "execbus-tour-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	workspace := filepath.Join(dir, "workspace")
	if err := os.MkdirAll(filepath.Join(workspace, ".git"), 0o700); err != nil {
		return err
	}
	rt, err := execbus.Start(execbus.Options{AmendmentFile: filepath.Join(dir, "rules", "default.rules")})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sceneTime)
	defer cancel()
	g := &stage{scene: s, events: make(chan messages.Event), numbers: map[messages.ProcessID]int{}, ends: map[messages.ProcessID]int{},
		received: map[messages.ProcessID]int{}}
	g.session, err = rt.OpenSession(execbus.SessionOptions{Dir: workspace, Approval: messages.ApprovalPolicy{Mode: cmp.Or(s.approval, messages.ApproveOnRequest)},
		Sandbox: s.sandbox, LeastAssurance: messages.AssuranceConfined, Approver: execbus.ApproverFunc(g.approve)})
	if err != nil {
		return errors.Join(err, shutdown(rt))
	}
	events, err := g.session.Events(execbus.Watch{})
	if err != nil {
		return errors.Join(err, shutdown(rt))
	}
	go func() {
		defer close(g.events)
		for event, err := range events.All(context.Background()) {
			if err == nil {
				g.events <- event
			}
		}
	}()
	for _, step := range s.steps {
		if err = g.step(ctx, step); err != nil {
			break
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- shutdown(rt) }()
	for event := range g.events {
		g.event(event)
	}
	if err = errors.Join(err, <-ended); err != nil {
		return err
	}
	once := len(g.ends) == len(g.numbers)
	for process := range g.numbers {
		once = once && g.ends[process] == 1
	}
	return check(once, fmt.Sprintf("processes: %d; each has exactly one recorded end", len(g.numbers)))
}

// check shows whether a claim holds.
func check(holds bool, sentence string) error {
	if !holds {
		tell("%s %s", paint(red, "DOES NOT HOLD:"), sentence)
		return errors.New("a claim does not hold")
	}
	tell("%s %s", paint(green, "holds:"), sentence)
	return nil
}

// step plays a step.
func (g *stage) step(ctx context.Context, s step) error {
	tell("%s", s.say)
	g.shown.Reset()
	g.output = nil
	var text string
	var ended messages.ProcessID
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		text, ended, err = g.perform(ctx, s.do)
	}()
	events := g.events
	if g.slow {
		events = nil
	}
	for waiting := true; waiting; {
		select {
		case event, open := <-events:
			if !open {
				return errEventsEnded
			}
			g.event(event)
		case <-answered:
			waiting = false
		}
	}
	if refusal, is := errors.AsType[*messages.Error](err); is && refusal.Enforceable != "" {
		return cannot(err.Error())
	} else if !errors.Is(err, s.fails) {
		return cmp.Or(err, errors.New("it did not fail"))
	} else if err != nil {
		text = err.Error()
	}
	for ended != 0 && g.ends[ended] == 0 { // its events come before the answer
		if err := g.next(ctx); err != nil {
			return err
		}
	}
	g.show("%s", text)
	for g.missing(s.see) != "" {
		if err := g.next(ctx); err != nil {
			return errors.Join(check(false, g.missing(s.see)), err)
		}
	}
	for _, c := range s.unseen {
		if g.sees(c.pattern) {
			return check(false, c.sentence)
		}
	}
	for _, c := range append(s.see, s.unseen...) {
		_ = check(true, c.sentence)
	}
	return nil
}

// next waits for an event.
func (g *stage) next(ctx context.Context) error {
	select {
	case event, open := <-g.events:
		if !open {
			return errEventsEnded
		}
		g.event(event)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// missing returns the first claim that does not hold yet.
func (g *stage) missing(claims []claim) string {
	for _, c := range claims {
		if !g.sees(c.pattern) {
			return c.sentence
		}
	}
	return ""
}

func (g *stage) sees(pattern string) bool {
	compiled := regexp.MustCompile("(?s)" + pattern)
	return compiled.MatchString(g.shown.String()) || compiled.Match(g.output)
}

// show shows text of an event or an answer.
func (g *stage) show(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	g.shown.WriteString(text + "\n")
	if text == "" {
		return
	}
	for row := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		tell("%s", paint(dim, "| "+plain(row)))
	}
}

// showFew is show for the first ten of many processes. Claims see all of them.
func (g *stage) showFew(number int, format string, values ...any) {
	if number <= 10 {
		g.show(format, values...)
	} else {
		fmt.Fprintf(&g.shown, format+"\n", values...)
	}
}

// approve gives the scene's answer; the event of the question shows it.
func (g *stage) approve(context.Context, messages.Question) (messages.Decision, error) {
	return g.answer, nil
}

// perform does what a step says. It returns what the caller sees, and the process if the answer says that it has ended.
func (g *stage) perform(ctx context.Context, do any) (text string, ended messages.ProcessID, err error) {
	g.calls++
	call := messages.CallID(fmt.Sprintf("tour %d", g.calls))
	switch d := do.(type) {
	case messages.ExecCommand:
		d.Call = call
		return g.result(g.session.Exec(ctx, d))
	case messages.WriteStdin:
		d.Process = g.process
		return g.result(g.session.Write(ctx, d))
	case messages.RunCommand:
		result, err := g.session.Run(ctx, d)
		if err != nil {
			return "", 0, err
		}
		return fmt.Sprintf("exit code %d, stdout %q, stderr %q", result.ExitCode, result.Stdout, result.Stderr), result.Process, nil
	case start:
		for range max(d.times, 1) {
			d.Call = call
			p, err := g.session.Start(ctx, d.ExecCommand)
			if err != nil {
				return "", 0, err
			}
			g.process = p.ID()
		}
		return "", 0, nil
	case messages.ReadOutput:
		d.Process = g.process
		page, err := g.session.Read(ctx, d)
		if err != nil {
			return "", 0, err
		}
		for _, chunk := range page.Chunks {
			text += string(chunk.Bytes)
		}
		return text, 0, nil
	case messages.Terminate:
		record, err := g.session.Terminate(ctx, messages.Terminate{Process: g.process})
		if err != nil {
			return "", 0, err
		}
		return fmt.Sprintf("%v; %d descendants ended, %d survive", record, record.Tree.Ended, len(record.Tree.Survivors)), g.process, nil
	case revokeAll:
		grants, err := g.session.Grants(ctx)
		for _, grant := range grants {
			text += fmt.Sprintf("forgotten: %s\n", grant.Display)
			err = errors.Join(err, g.session.Revoke(ctx, messages.RevokeGrant{Grant: grant.ID}))
		}
		return text, 0, err
	case terminateAll:
		return "", 0, g.session.TerminateAll(ctx)
	case count:
		processes, err := g.session.List(ctx)
		return fmt.Sprintf("%d processes run", len(processes)), 0, err
	default:
		panic(fmt.Sprintf("a step of the tour does %T", do))
	}
}

// result is the answer as a model reads it, with the exact number of its bytes.
func (g *stage) result(r *messages.Result, err error) (text string, ended messages.ProcessID, _ error) {
	if err != nil {
		return "", 0, err
	}
	text = tools.Text(r)
	if r.Omitted > 0 {
		text += fmt.Sprintf("\n%d bytes were kept for the answer and %d were dropped: %d in all",
			len(r.Output), r.Omitted, int64(len(r.Output))+r.Omitted)
	}
	if g.process = r.Process; r.Running {
		return text, 0, nil
	}
	return text, r.Process, nil
}

// event shows what happens to processes.
func (g *stage) event(event messages.Event) {
	id := event.From().Process
	switch e := event.(type) {
	case messages.ExecStarted:
		g.numbers[id] = len(g.numbers) + 1
		text := fmt.Sprintf("process %d started", g.numbers[id])
		if e.Enforced != nil {
			text += fmt.Sprintf(", enforced: %s", e.Enforced)
		}
		g.showFew(g.numbers[id], "%s", text)
	case messages.OutputDelta:
		g.received[id] += len(e.Bytes)
		g.output = append(g.output, e.Bytes...)
		g.output = g.output[max(0, len(g.output)-tailKept):]
	case messages.Gap:
		g.show("a gap: %d bytes of output, in %d events", e.End-e.First, e.Deltas)
		g.received[id] += int(e.End - e.First)
	case messages.ExecEnded:
		switch number := g.numbers[id]; {
		case number == 0:
			g.show("no process was started: %v", &e.EndRecord)
		case g.slow:
			g.show("it wrote %d bytes; its events had or counted %d", e.Total, g.received[id])
		default:
			g.showFew(number, "process %d ended: %v", number, &e.EndRecord)
		}
		if g.numbers[id] != 0 {
			g.ends[id]++
		}
	case messages.AttemptEnded:
		g.show("attempt %d was denied: %s", e.Attempt, e.Denial)
	case messages.ProcessWarning:
		if !g.sees("a warning: ") { // each further start brings another one
			g.show("a warning: %s", e.Text)
		}
	case messages.ApprovalRequested:
		g.show("%s", e.Text())
	case messages.ApprovalResolved:
		g.show("The answer: %s", e.Decision)
	case messages.ToolDecision:
		word, where := "refused", "in the sandbox"
		if e.Allowed {
			word = "allowed"
		}
		if e.Unsandboxed {
			where = "without a sandbox"
		}
		if g.approval != "" {
			g.show("%s by %s, %s", word, e.Source, where)
		}
	}
}
