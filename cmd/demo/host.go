package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/cmd/internal/ask"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/view"
	"github.com/execbus/execbus/window"
)

// host runs commands on a terminal, with the terminal in raw mode from the beginning to the end. One goroutine owns the host:
// it reads a line if no command is in front, and otherwise it passes keys and output on. Others send to the channels.
type host struct {
	rt       *execbus.Runtime
	session  *execbus.Session
	policies *policies
	terminal *terminal
	single   bool // one command instead of a prompt

	keys    <-chan []byte       // closed at the end of the input
	asks    chan *asked         // from the approver
	events  chan messages.Event // of all commands, in order and without loss; nil after the last one
	results chan func()         // what other goroutines have for this one
	signals chan os.Signal

	window   *window.Window // nil until it is opened
	windowAt string         // its URL

	jobs     map[messages.CallID]*job // those that run, and those that ended with output that was not shown
	started  int
	front    *job                // it has the terminal; nil: the prompt has it, or a wait
	stopWait func()              // ends the wait that was asked for; nil: there is none
	pending  []byte              // keys that nobody has taken yet
	typed    []byte              // keys of the line that is being typed
	line     *term.Terminal      // the editor of that line; nil if none is being typed
	past     term.History        // the earlier lines
	held     []string            // notes to show when no command is in front; a command adds one when it ends
	asked    messages.QuestionID // the newest question; output before it has been shown
	over     bool
	code     int
}

// job is a command of a host.
type job struct {
	call        messages.CallID
	id          messages.ProcessID // zero until its program runs
	text        string
	began       time.Time
	said, shown int64 // how many bytes of output there are, and how many of them were shown
	last        byte  // the last one that was shown
	fullScreen  bool
	cancelled   bool // before its program ran
	cancel      context.CancelFunc
	end         *messages.EndRecord // nil: it runs
}

const (
	// mostPending bounds the keys, in bytes, that wait for the program of a command to start.
	mostPending = 64 << 10
	// mostUnseen bounds how many commands that have ended are listed because not all of their output was shown.
	mostUnseen = 64
	// historyPage bounds the output, in bytes, that is read at a time when a command comes back.
	historyPage = 256 << 10
)

// Keys that the demo itself knows.
const (
	ctrlC = 0x03
	ctrlZ = 0x1a
)

// runOnTerminal reads commands and runs them, or runs one.
func runOnTerminal(t *terminal, argv []string, p *policies) int {
	t.pastes = argv == nil && smart()
	guarded := lifeline()
	if guarded == nil {
		return guard(t)
	}
	defer t.restore()
	h := &host{policies: p, terminal: t, single: argv != nil, keys: typed(), asks: make(chan *asked), events: make(chan messages.Event), results: make(chan func()),
		signals: make(chan os.Signal, 16), jobs: map[messages.CallID]*job{}}
	signal.Notify(h.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGWINCH, syscall.SIGCONT)
	if h.single {
		signal.Notify(h.signals, syscall.SIGQUIT)
	}
	var err error
	if h.rt, h.session, err = p.start(execbus.ApproverFunc(h.approve), environment()); err != nil {
		return fail(err)
	}
	events, err := h.session.Events(execbus.Watch{Lossless: true})
	if err != nil {
		return fail(errors.Join(err, shutdown(h.rt)))
	}
	go func() {
		defer close(h.events)
		for event, err := range events.All(context.Background()) {
			if err == nil {
				h.events <- event
			}
		}
	}()
	go func() { // this goroutine ends only with the guard
		_, _ = io.Copy(io.Discard, guarded)
		t.restore()
		h.signals <- syscall.SIGHUP // a question heeds signals, too
	}()
	t.raw()
	if h.single {
		h.start(messages.ExecCommand{Argv: argv}, strings.Join(argv, " "))
	} else {
		h.note("Each line is run by your shell. :help lists what else there is, :quit or Ctrl-D ends the demo.")
	}
	return h.run()
}

// environment is that of commands that a person looks at: they get the type of this terminal, not the dumb one that agents get.
func environment() messages.EnvironmentPolicy {
	policy := messages.EnvironmentPolicy{Set: map[string]string{}}
	for _, name := range []string{"TERM", "COLORTERM"} {
		if value, set := os.LookupEnv(name); set {
			policy.Set[name] = value
		}
	}
	return policy
}

// run returns the exit code.
func (h *host) run() int {
	for !h.over {
		if h.front != nil || h.stopWait != nil {
			h.await()
			h.press()
		} else if line, typed := h.readLine(); typed {
			h.enter(line)
		}
	}
	for h.events != nil { // until everything has ended
		h.await()
	}
	return h.code
}

// await waits for one thing to happen and does what is to be done about it.
func (h *host) await() {
	select {
	case chunk, open := <-h.keys:
		switch {
		case !open:
			if h.keys = nil; h.single { // the terminal is gone, and the command is ended
				h.quit(128 + int(syscall.SIGHUP))
			}
			h.quit(0)
		case len(h.pending)+len(chunk) > mostPending:
			h.terminal.show([]byte("\a"))
		default:
			h.pending = append(h.pending, chunk...)
		}
	case question := <-h.asks:
		h.ask(question)
	case event, open := <-h.events:
		h.event(event, open)
	case do := <-h.results:
		do()
	case received := <-h.signals:
		h.signal(received.(syscall.Signal))
	}
}

// start starts a command, which is in front from now on.
func (h *host) start(command messages.ExecCommand, text string) {
	h.started++
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{call: messages.CallID(fmt.Sprintf("demo %d", h.started)), text: text, last: '\n', cancel: cancel}
	command.Call, command.TTY, command.Attended, command.Size = j.call, true, true, h.terminal.size()
	command.Owner = "demo"                 // an answer that rejects everything is about all commands of an owner
	command.Yield = new(messages.MaxYield) // as long as the call waits, a command that its sandbox stops may run again
	h.jobs[j.call], h.front = j, j
	go func() {
		switch result, err := h.session.Exec(ctx, command); {
		case err != nil:
			h.results <- func() { h.notStarted(j, err) }
		case result.Patch != nil:
			h.results <- func() { h.patched(j, result.Patch) }
		default: // the events say the rest
		}
	}()
}

// cancel ends the start of a command. A command that starts nevertheless is ended, too.
func (h *host) cancel(j *job) {
	j.cancelled = true
	j.cancel()
}

// notStarted shows why a command does not run. If it ran nevertheless, the event of its end says more.
func (h *host) notStarted(j *job, err error) {
	if j.id != 0 {
		return
	}
	if !j.cancelled || j.end != nil { // else it may start yet
		delete(h.jobs, j.call)
	}
	if errors.Is(err, messages.ErrAborted) {
		h.pending = nil
	}
	h.leave()
	if !h.over {
		h.note("demo: %v", err)
	}
	if h.single {
		h.quit(cmp.Or(h.code, exitCodeOf(err))) // the code is that of a signal
	}
}

// patched shows what a patch has done that was given as a command.
func (h *host) patched(j *job, result *messages.PatchResult) {
	delete(h.jobs, j.call)
	if h.front == j {
		for line := range strings.Lines(result.Summary) {
			h.show(j, []byte(messages.Visible(strings.TrimSuffix(line, "\n"))+"\r\n"))
		}
		h.leave()
	}
	if h.single {
		h.quit(0)
	}
}

// event handles what happened to a command.
func (h *host) event(event messages.Event, open bool) {
	if !open {
		h.events = nil
		h.quit(125)
		return
	}
	switch e := event.(type) {
	case messages.ApprovalRequested:
		h.asked = e.ID
	case messages.ExecNotice:
		h.note("%s", e.Text)
	case messages.ProcessWarning:
		h.note("%s", e.Text)
	}
	j := h.jobs[event.From().Call]
	if j == nil {
		return
	}
	switch e := event.(type) {
	case messages.ExecStarted:
		if j.id, j.began = e.Process, e.At; j.cancelled {
			h.terminate(j)
		}
	case messages.OutputDelta:
		j.said = e.Offset + int64(len(e.Bytes))
		if at := bytes.LastIndex(e.Bytes, []byte(fullScreen)); at >= 0 {
			j.fullScreen = bytes.HasPrefix(e.Bytes[at+len(fullScreen):], []byte("h"))
		}
		if h.front == j {
			h.show(j, e.Bytes)
			j.shown = j.said
		}
	case messages.ExecEnded:
		switch j.end = &e.EndRecord; {
		case j.id != 0:
			h.ended(j)
		case h.front != j: // the answer to the call came before
			delete(h.jobs, j.call)
		}
	}
}

// fullScreen and an h switch to the alternate screen, which full-screen programs use; with an l they switch back.
const fullScreen = "\x1b[?1049"

// show shows the output of the command in front.
func (h *host) show(j *job, p []byte) {
	if len(p) > 0 {
		j.last = p[len(p)-1]
		h.terminal.show(p)
	}
}

// leave takes the terminal from the command in front. Nothing that the command did to the terminal stays, so it can neither hide
// nor forge what the demo says below its output.
func (h *host) leave() {
	j := h.front
	if h.front = nil; j == nil || h.single {
		return
	}
	if smart() {
		h.terminal.show([]byte(ask.Reset()))
	}
	if j.last != '\n' || j.fullScreen {
		h.print("\n")
	}
	j.last = '\n'
	for _, text := range h.held {
		h.print(text)
	}
	h.held = nil
}

// toBack puts the command in front into the background.
func (h *host) toBack() {
	j := h.front
	h.leave()
	h.note("[%d] goes on in the background. :fg %d brings it back.", j.id, j.id)
}

// toFront gives a command the terminal: first the output that was not shown yet, then everything that happens.
func (h *host) toFront(j *job) {
	h.front = j
	if j.fullScreen && j.end == nil {
		h.terminal.show([]byte(fullScreen + "h"))
	}
	for j.shown < j.said {
		page, err := h.session.Read(context.Background(), messages.ReadOutput{Process: j.id, Offset: &j.shown, SkipLost: true,
			Max: int(min(j.said-j.shown, historyPage))})
		if err == nil && page.Missed == 0 && len(page.Chunks) == 0 {
			err = errors.New("the rest of the output cannot be read")
		}
		if err != nil {
			h.held = append(h.held, h.painted("demo: %v", err))
			break
		}
		if lost := min(page.Missed, j.said-j.shown); lost > 0 {
			h.print(h.painted("[%d bytes of output are no longer remembered]", lost))
			j.shown += lost
		}
		for _, chunk := range page.Chunks { // the events have what is behind j.said
			p := chunk.Bytes[:min(int64(len(chunk.Bytes)), max(j.said-j.shown, 0))]
			h.show(j, p)
			j.shown += int64(len(p))
		}
	}
	j.shown = j.said
	if j.end != nil {
		h.ended(j)
		return
	}
	h.redraw(j)
}

// redraw makes a full-screen program draw everything again, by changing the size of its window.
func (h *host) redraw(j *job) {
	size := h.terminal.size()
	if j.fullScreen {
		h.resize(j, messages.Size{Rows: max(size.Rows-1, 1), Cols: size.Cols})
	}
	h.resize(j, size)
}

// resize is no failure if the command has ended meanwhile.
func (h *host) resize(j *job, size messages.Size) {
	_ = h.session.Resize(context.Background(), messages.Resize{Process: j.id, Size: size})
}

// ended says how a command has ended. It is forgotten when all of its output was shown.
func (h *host) ended(j *job) {
	if h.single {
		code, known := j.end.Status.Code()
		if !known {
			code = fail(fmt.Errorf("the command ended without a status: %v", j.end))
		}
		h.quit(code)
		return
	}
	text := fmt.Sprintf("[%d] ", j.id)
	if h.front == j {
		h.leave()
	} else {
		text += j.text + ": "
	}
	text += fmt.Sprintf("%v, after %v", j.end, j.end.Duration.Round(time.Millisecond))
	if n := j.end.Tree.Ended; n > 0 {
		text += fmt.Sprintf("; descendants ended with it: %d", n)
	}
	for _, left := range j.end.Tree.Survivors {
		text += fmt.Sprintf("; still alive: %d %s (%s)", left.PID, left.Name, left.Why)
	}
	unseen := j.said - j.shown
	if unseen == 0 {
		delete(h.jobs, j.call)
	} else if !h.over {
		text += fmt.Sprintf(". :fg %d shows the rest of its output, %d bytes.", j.id, unseen)
	}
	h.note("%s", text)
	if gone := slices.DeleteFunc(h.listed(), func(j *job) bool { return j.end == nil }); len(gone) > mostUnseen {
		delete(h.jobs, gone[0].call)
	}
}

// listed returns the jobs that have started, in that order.
func (h *host) listed() []*job {
	jobs := slices.SortedFunc(maps.Values(h.jobs), func(a, b *job) int { return a.began.Compare(b.began) })
	return slices.DeleteFunc(jobs, func(j *job) bool { return j.id == 0 })
}

// signal handles a signal for this process.
func (h *host) signal(received syscall.Signal) {
	switch j := h.front; {
	case received == syscall.SIGCONT: // the shell that stopped this process may have changed the terminal
		h.terminal.raw()
	case received == syscall.SIGWINCH:
		size := h.terminal.size()
		if h.line != nil {
			h.lineSize()
		}
		for _, j := range h.jobs {
			if j.id != 0 {
				h.resize(j, size)
			}
		}
	case h.single && j != nil && j.id == 0:
		h.code = 128 + int(received)
		h.cancel(j)
	case h.single && j != nil && (received == syscall.SIGTERM || received == syscall.SIGHUP):
		h.terminate(j)
	case h.single || received == syscall.SIGINT:
		if j != nil && j.id != 0 { // it is no failure if the command has ended meanwhile
			_ = h.session.Signal(context.Background(), messages.Signal{Process: j.id, Signal: received})
		}
	default:
		h.quit(128 + int(received))
	}
}

// terminate ends a command with everything it started. An event says how it ended.
func (h *host) terminate(j *job) {
	go func() {
		if _, err := h.session.Terminate(context.Background(), messages.Terminate{Process: j.id}); err != nil {
			h.results <- func() { h.note("demo: %v", err) }
		}
	}()
}

// quit ends everything; the events say what has ended.
func (h *host) quit(code int) {
	if h.over {
		return
	}
	h.over, h.code = true, code
	if h.line != nil {
		h.line = nil
		h.print("\n")
	}
	h.leave()
	if len(h.jobs) > 0 && !h.single {
		h.note("Ending everything that still runs.")
	}
	go func() {
		if h.window != nil {
			h.window.Close()
		}
		if err := shutdown(h.rt); err != nil {
			h.terminal.restore()
			os.Exit(fail(err)) // the warden ends the rest
		}
	}()
}

// note says something for the demo. While a command is in front it waits.
func (h *host) note(format string, values ...any) {
	switch text := h.painted(format, values...); {
	case h.line != nil:
		_, _ = h.line.Write([]byte(text))
	case h.front != nil && !h.single:
		h.held = append(h.held, text)
	default:
		h.print(text)
	}
}

func (h *host) print(text string) { _, _ = h.terminal.Write([]byte(text)) }

// painted is a text of the demo, without control characters of commands.
func (h *host) painted(format string, values ...any) string {
	var lines []string
	for line := range strings.SplitSeq(fmt.Sprintf(format, values...), "\n") {
		lines = append(lines, plain(line))
	}
	return paint(dim, strings.Join(lines, "\n")) + "\n"
}

// plain is a line with text of commands, as it can be shown among other text: without what would move the cursor, change the terminal or turn
// the direction of the text.
func plain(row string) string {
	text := view.TextOf([]byte(strings.TrimRight(row, "\r\n")), messages.Size{})
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, string(text))
}

// Colours, as parameters of the terminal's sequence.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
)

// paint colours a text, unless the output is no terminal with colours; see no-color.org.
func paint(colour, text string) string {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(os.Stdout.Fd())) {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// asked is a question on its way to a person.
type asked struct {
	messages.Question
	wanted context.Context        // done when the answer is no longer wanted
	answer chan messages.Decision // of size one
}

// approve is the approver: it gives a question to the host.
func (h *host) approve(ctx context.Context, q messages.Question) (messages.Decision, error) {
	question := &asked{Question: q, wanted: ctx, answer: make(chan messages.Decision, 1)}
	select {
	case h.asks <- question:
	case <-ctx.Done():
		return messages.Decision{}, ctx.Err()
	}
	select {
	case decision := <-question.answer:
		return decision, nil
	case <-ctx.Done():
		return messages.Decision{}, ctx.Err()
	}
}

// ask puts a question, and waits until it is answered or over. Output and events wait meanwhile. Keys that were typed before belong
// to the line or the command; those that are typed now are for the question.
func (h *host) ask(q *asked) {
	for h.asked != q.ID && h.events != nil { // what its command said before comes first
		select {
		case event, open := <-h.events:
			h.event(event, open)
		case <-q.wanted.Done():
			return
		}
	}
	for waiting := true; waiting; {
		select {
		case chunk, open := <-h.keys:
			h.pending, waiting = append(h.pending, chunk...), open
		default:
			waiting = false
		}
	}
	h.line = nil // it is shown anew
	ctx, withdraw := context.WithCancel(q.wanted)
	defer withdraw()
	done := make(chan struct{})
	go func() {
		defer close(done)
		asking := ask.Terminal{Name: "demo", Keys: h.keys, Out: h.terminal, Size: h.terminal.size, Drop: func() { ask.Drop(h.terminal.in) }}
		decision, err := asking.Ask(ctx, q.Question)
		if err == nil {
			if decision.Kind == messages.DecisionApprovedWithRule {
				h.policies.makeRoom()
			}
			q.answer <- decision
		}
	}()
	for open := true; open; {
		select {
		case <-done:
			open = false
		case received := <-h.signals:
			if received != syscall.SIGWINCH && received != syscall.SIGCONT {
				withdraw()
				<-done
			}
			h.signal(received.(syscall.Signal))
		}
	}
	if j := h.front; j != nil && j.fullScreen {
		h.terminal.show([]byte(fullScreen + "h"))
		h.redraw(j)
	}
}
