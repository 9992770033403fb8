//go:build linux

package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// host is a runtime with one session. After a case nothing of it may be left.
type host struct {
	*execbus.Session
	t       testing.TB
	runtime *execbus.Runtime
	token   string
	dir     string // has the token in its name
	ctx     context.Context
	all     *witness
	lossy   bool // programs do not wait for their subscribers

	neighbours []*host
}

var warm sync.Once

// open starts a host. After the case it shuts the host down and checks that nothing is left.
func open(t testing.TB, options execbus.Options) *host {
	t.Helper()
	warm.Do(warmUp) // the first runtime opens descriptors that stay open, such as the poller's
	had := remember()
	runtime, err := execbus.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*patience)
	h := &host{t: t, runtime: runtime, token: newToken(), ctx: ctx}
	h.dir = scratch(t, h.token)
	h.Session = h.session(execbus.SessionOptions{Dir: h.dir})
	if h.all, err = watch(h.Session, execbus.Watch{Kinds: lifecycle}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		h.close()
		had.nothingLeft(t, h.token)
	})
	return h
}

func warmUp() {
	runtime, err := execbus.Start(execbus.Options{})
	must(err)
	session, err := runtime.OpenSession(execbus.SessionOptions{})
	must(err)
	_, err = session.Exec(context.Background(), messages.ExecCommand{Argv: []string{"true"}, TTY: true})
	must(err)
	must(runtime.Shutdown(context.Background()))
}

func (h *host) session(options execbus.SessionOptions) *execbus.Session {
	h.t.Helper()
	session, err := h.runtime.OpenSession(options)
	if err != nil {
		h.t.Fatal(err)
	}
	return session
}

// close shuts the runtime down and checks the events of each process.
func (h *host) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.runtime.Shutdown(ctx); err != nil {
		h.t.Errorf("shutdown: %v", err)
		return
	}
	for _, of := range append(h.neighbours, h) {
		<-of.all.over
		of.all.checkStories(h.t)
	}
}

// neighbour opens another session of the same runtime.
func (h *host) neighbour() *host {
	h.t.Helper()
	n := *h
	n.Session, n.token = h.session(execbus.SessionOptions{Dir: h.dir}), newToken()
	var err error
	if n.all, err = watch(n.Session, execbus.Watch{Kinds: lifecycle}); err != nil {
		h.t.Fatal(err)
	}
	h.neighbours = append(h.neighbours, &n)
	return &n
}

// reaped checks that the warden has neither living nor dead children, once all commands have ended.
func (h *host) reaped() {
	h.t.Helper()
	for _, w := range wardens(os.Getpid()) {
		if _, ok := within(patience, func() bool { alive, dead := children(w.pid); return len(alive)+len(dead) == 0 }); !ok {
			alive, dead := children(w.pid)
			h.t.Errorf("the warden still has children: alive %v, dead %v", alive, dead)
		}
	}
}

var lifecycle = []messages.EventKind{messages.KindExecStarted, messages.KindExecExited, messages.KindOutputClosed, messages.KindExecEnded}

// witness keeps the events of a subscription.
type witness struct {
	subscription *bus.Subscription
	over         chan struct{} // closed when no more events come

	mu      sync.Mutex
	events  []messages.Event // without output and transcripts
	output  []byte
	total   int64
	slow    int // multiplies the usual patience
	changed chan struct{}
}

func watch(session *execbus.Session, what execbus.Watch) (*witness, error) {
	subscription, err := session.Events(what)
	if err != nil {
		return nil, err
	}
	w := &witness{subscription: subscription, over: make(chan struct{}), changed: make(chan struct{})}
	go w.read()
	return w, nil
}

func (w *witness) read() {
	defer close(w.over)
	for event, err := range w.subscription.All(context.Background()) {
		if err != nil {
			return
		}
		w.mu.Lock()
		switch e := event.(type) {
		case messages.OutputDelta:
			w.total += int64(len(e.Bytes))
			w.output = append(w.output, e.Bytes...)
		case messages.ExecEnded:
			e.Transcript = nil
			w.events = append(w.events, e)
		default:
			w.events = append(w.events, e)
		}
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
}

// await waits for a condition. It calls the condition with the lock held.
func (w *witness) await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	late := time.NewTimer(time.Duration(max(w.slow, 1)) * patience)
	defer late.Stop()
	for {
		w.mu.Lock()
		done, changed := condition(), w.changed
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Fatalf("never happened: %s; events %v, output %.300q", what, w.events, w.output)
		}
	}
}

// checkStories checks the order of each process's events: it ended once, with the last of them, and if it began, the order
// is a good one.
func (w *witness) checkStories(t testing.TB) {
	t.Helper()
	stories := map[messages.ProcessID]string{}
	over := map[messages.ProcessID]bool{}
	for _, event := range w.events {
		id := event.From().Process
		if over[id] {
			t.Errorf("process %d has ended, and then came %s", id, event.Kind())
			continue
		}
		stories[id] += string(event.Kind()) + " "
		ended, is := event.(messages.ExecEnded)
		if !is {
			continue
		}
		if !slices.Contains(goodStories, stories[id]) && ended.Cause != messages.CauseRuntimeFailure {
			t.Errorf("the story of process %d: %s", id, stories[id])
		}
		delete(stories, id)
		over[id] = true
	}
	for id, story := range stories {
		t.Errorf("process %d never ended: %s", id, story)
	}
}

// goodStories are the orders of events for a process whose actor and warden live.
var goodStories = []string{
	"exec_started exec_exited output_closed exec_ended ",
	"exec_started output_closed exec_exited exec_ended ",
	"exec_ended ",
}

// program is one command of a host.
type program struct {
	*host
	id   messages.ProcessID
	seen *witness
}

// run starts a command and follows its events, without the output if blind is set.
func (h *host) run(command messages.ExecCommand, blind bool) *program {
	h.t.Helper()
	p, err := h.try(command, blind)
	if err != nil {
		h.t.Fatalf("exec: %v", err)
	}
	return p
}

func (h *host) try(command messages.ExecCommand, blind bool) (*program, error) {
	command.Call = messages.CallID(newToken())
	following := execbus.Watch{Calls: []messages.CallID{command.Call}, Lossless: !h.lossy}
	if blind {
		following = execbus.Watch{Calls: following.Calls, Kinds: lifecycle}
	}
	events, err := watch(h.Session, following)
	if err != nil {
		return nil, err
	}
	p, err := h.Start(h.ctx, command)
	if err != nil {
		events.subscription.Close()
		return nil, err
	}
	return &program{h, p.ID(), events}, nil
}

// bash makes a command that runs a script with the token as $1.
func (h *host) bash(tty bool, script string, more ...string) messages.ExecCommand {
	return messages.ExecCommand{Argv: append([]string{"bash", "-c", script, "bash", h.token}, more...), TTY: tty, OpenStdin: true}
}

// role makes a command that runs this binary in a role.
func (h *host) role(tty bool, role string, more ...string) messages.ExecCommand {
	return messages.ExecCommand{Argv: append([]string{self, h.token}, more...), TTY: tty, OpenStdin: true,
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{roleVariable: role}}}
}

func find[E messages.Event](w *witness) (E, bool) {
	for _, event := range w.events {
		if e, ok := event.(E); ok {
			return e, true
		}
	}
	var none E
	return none, false
}

func awaitEvent[E messages.Event](p *program) (event E) {
	p.t.Helper()
	p.seen.await(p.t, fmt.Sprintf("%T", event), func() bool {
		var ok bool
		event, ok = find[E](p.seen)
		return ok
	})
	return event
}

func (p *program) awaitOutput(text string) {
	p.t.Helper()
	p.seen.await(p.t, "output "+text, func() bool { return strings.Contains(string(p.seen.output), text) })
}

func (p *program) pid() int { return awaitEvent[messages.ExecStarted](p).PID }

// end waits for the end, and checks that its report is true.
func (p *program) end() messages.ExecEnded {
	p.t.Helper()
	ended := awaitEvent[messages.ExecEnded](p)
	p.seen.subscription.Close()
	if len(ended.Tree.Survivors) > 0 {
		p.t.Errorf("survivors: %+v", ended.Tree.Survivors)
	}
	return ended
}

func (p *program) write(text string) {
	p.t.Helper()
	if _, err := p.Write(p.ctx, messages.WriteStdin{Process: p.id, Bytes: []byte(text), UntilTaken: true}); err != nil {
		p.t.Errorf("write %.20q: %v", text, err)
	}
}

func (p *program) terminate() {
	p.t.Helper()
	if _, err := p.Terminate(p.ctx, messages.Terminate{Process: p.id}); err != nil {
		p.t.Errorf("terminate: %v", err)
	}
}

// codeOf returns the code of a typed error, "" for no error, and "untyped" for any other error.
func codeOf(err error) messages.ErrorCode {
	if err == nil {
		return ""
	}
	if typed, ok := errors.AsType[*messages.Error](err); ok {
		return typed.Code
	}
	return messages.ErrorCode("untyped: " + err.Error())
}
