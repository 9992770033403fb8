package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// view is where a host shows things. Only the host's loop uses it.
type view interface {
	output(j *job, stream messages.Stream, p []byte)
	ended(j *job, end messages.ExecEnded)
	flush()             // shows text that was held back because its line is incomplete
	answer(text string) // the result of a verb
	note(text string)   // a message from the demo
	fail(err error)
	close()
}

// host runs commands for a person who enters lines, or for a file of them. Its fields belong to its loop; goroutines send it
// functions.
type host struct {
	rt       *execbus.Runtime
	session  *execbus.Session
	policies *policies
	view     view
	terminal *terminal // nil: the lines come from elsewhere, and commands run on pipes
	yield    time.Duration

	jobs       map[messages.CallID]*job // jobs that have not ended
	calls      int
	front      *job     // its output has no number in front, and it gets typed lines while it reads
	waiting    []line   // typed ahead
	passing    *passage // while a command gets every key
	keys       *keyboard
	shown      aim
	dir        string // where commands run
	variables  messages.EnvironmentPolicy
	changing   context.CancelFunc // ends a line that changes the directory or the environment; nil if none runs
	told       map[string]bool    // hints that were shown
	showEvents bool
	quitting   bool
	code       int // exit code: that of the last line, unless something else sets it
	lost       error

	lines   chan line
	events  chan messages.Event // closed after the last one
	updates chan func()
	over    chan struct{} // closed when the loop has ended
}

// newHost starts a runtime and a session for commands. Without an approver nobody is asked.
func newHost(t *terminal, yield time.Duration, p *policies, approver execbus.Approver) (*host, error) {
	rt, session, err := p.start(approver, onScreen(t))
	if err != nil {
		return nil, err
	}
	dir, _ := os.Getwd() // the session's default
	return &host{rt: rt, dir: dir, variables: onScreen(t), session: session, policies: p, terminal: t, yield: yield,
		jobs: map[messages.CallID]*job{}, told: map[string]bool{}, lines: make(chan line), events: make(chan messages.Event), updates: make(chan func()), over: make(chan struct{})}, nil
}

// onScreen is the environment of commands that a person looks at: they get the type of this terminal, not the dumb one that
// agents get.
func onScreen(t *terminal) messages.EnvironmentPolicy {
	policy := messages.EnvironmentPolicy{}
	if t == nil {
		return policy
	}
	policy.Set = map[string]string{}
	for _, name := range []string{"TERM", "COLORTERM"} {
		if value, set := os.LookupEnv(name); set {
			policy.Set[name] = value
		}
	}
	return policy
}

// tell runs a function in the loop. Goroutines use it.
func (h *host) tell(update func()) {
	select {
	case h.updates <- update:
	case <-h.over:
	}
}

// perform runs a function in the loop, and waits for it.
func (h *host) perform(update func()) {
	done := make(chan struct{})
	h.tell(func() { update(); close(done) })
	select {
	case <-done:
	case <-h.over:
	}
}

// holdBack is how long an incomplete line may wait for its end before it is shown.
const holdBack = 100 * time.Millisecond

// run is the loop. It returns the exit code.
func (h *host) run(signals <-chan os.Signal) int {
	defer close(h.over)
	events, err := h.session.Events(execbus.Watch{Lossless: true})
	if err != nil {
		h.view.fail(err)
		return exitCodeOf(err)
	}
	go func() {
		defer close(h.events)
		for event, err := range events.All(context.Background()) {
			if err != nil {
				h.tell(func() { h.lost = err })
				return
			}
			h.events <- event
		}
	}()
	flush := time.NewTicker(holdBack)
	defer flush.Stop()
	for {
		select {
		case event, open := <-h.events:
			if !open {
				return h.leave()
			}
			h.event(event)
		case update := <-h.updates:
			update()
		case l := <-h.lines:
			h.line(l)
		case received := <-signals:
			h.signal(received)
		case <-flush.C:
			h.view.flush()
			h.reprompt()
		}
	}
}

// leave handles the end of the loop, after the last event.
func (h *host) leave() int {
	h.endPass("")
	if s, ok := h.view.(*screen); ok && s.away { // a question was open
		s.back()
	}
	h.view.flush()
	defer h.view.close()
	if !h.quitting {
		h.view.fail(errors.Join(errors.New("the events ended"), h.lost))
		_ = shutdown(h.rt)
		return 125
	}
	return h.code
}

// quit ends everything; the loop continues until the last event.
func (h *host) quit(code int) {
	if h.quitting {
		return
	}
	h.quitting, h.code = true, code
	h.waiting = nil
	h.endPass("")
	if n := len(h.jobs); n > 0 && h.terminal != nil {
		h.view.note("Ending everything that still runs.")
	}
	go func() {
		if err := shutdown(h.rt); err != nil {
			fail(err)
			h.terminal.restore()
			os.Exit(exitCodeOf(err)) // the warden ends the rest
		}
	}()
}

func (h *host) signal(received os.Signal) {
	switch received {
	case syscall.SIGINT:
		h.interrupt("")
	case syscall.SIGWINCH:
		h.resized()
	case syscall.SIGCONT: // the shell that stopped us may have changed the terminal
		if h.passing != nil && h.passing.began {
			_ = h.terminal.raw()
		} else {
			_ = h.terminal.cbreak()
		}
	default:
		h.quit(128 + int(received.(syscall.Signal)))
	}
}

// line handles a line of input that no command reads.
func (h *host) line(l line) {
	text := strings.TrimSpace(l.text)
	switch {
	case h.quitting:
	case l.to != nil && l.to != h.front:
		h.view.note(fmt.Sprintf("[%d] ended without reading this line, and your shell does not get it either. The up arrow "+
			"brings it back.", l.to.id))
		l.done(1)
	case strings.HasPrefix(text, ":"):
		h.verb(text[1:], l.done)
	case h.changing != nil, h.front != nil && h.terminal != nil:
		h.wait(l)
	case text == "" || strings.HasPrefix(text, "#") && !strings.Contains(text, "\n"):
		l.done(0)
	default:
		h.begin(strings.TrimRight(l.text, "\r\n"), l.done)
	}
}

// submitted handles a line that was typed for a job that read.
func (h *host) submitted(text string, j *job) {
	if h.quitting {
		return
	}
	if j != h.front || h.passing != nil {
		h.line(line{text: text, to: j, done: func(int) {}})
		return
	}
	h.waiting = append(h.waiting, line{text: text, done: func(int) {}})
	h.feed()
}

// resized passes a new window size on to the commands, and to the line editor.
func (h *host) resized() {
	size := h.terminal.size()
	if s, ok := h.view.(*screen); ok {
		s.resize(size)
	}
	for _, j := range h.jobs {
		if id := j.id; id != 0 {
			go func() { _ = h.session.Resize(context.Background(), messages.Resize{Process: id, Size: size}) }()
		}
	}
}
