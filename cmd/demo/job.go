package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// job is a command that the host runs.
type job struct {
	call        messages.CallID
	number      int                // in the order of their starts
	id          messages.ProcessID // zero until it has started
	background  bool
	interrupted bool      // interrupted before it had started
	rest        []byte    // incomplete last line of its output
	spoke       time.Time // when that line began
	script      string
	began       time.Time

	// The state of its terminal; see front.go and attach.go.
	probe  *probe
	state  ttyState
	fed    bool               // it got a line, and its terminal has not been looked at since
	alt    bool               // it is on the alternate screen
	tail   []byte             // end of its output, for sequences in pieces
	redraw bool               // draw again when it gets the terminal
	input  chan []byte        // typed keys for it
	said   chan struct{}      // of size one: look soon
	stale  chan struct{}      // of size one: look soon, and report in any case
	away   chan struct{}      // closed when it is no longer in front
	letGo  context.CancelFunc // ends the wait for the command, not the command
	done   func(code int)
}

// typedAhead is how many chunks of keys may wait for a command that does not read them.
const typedAhead = 64

// start runs a line as a script of the user's shell. There is no job in front.
func (h *host) start(script string, done func(code int)) {
	h.calls++
	ctx, letGo := context.WithCancel(context.Background())
	j := &job{call: messages.CallID("line " + strconv.Itoa(h.calls)), number: h.calls, letGo: letGo, done: done, script: script,
		began: time.Now(), input: make(chan []byte, typedAhead), said: make(chan struct{}, 1), stale: make(chan struct{}, 1),
		away: make(chan struct{})}
	h.jobs[j.call], h.front = j, j
	request := messages.ExecCommand{Call: j.call, Script: script, Login: new(true)}
	if h.terminal == nil { // the loop waits for its events
		go func() {
			_, err := h.session.Start(ctx, request)
			h.tell(func() { h.answered(j, false, err) })
		}()
		return
	}
	request.TTY, request.Attended, request.Size, request.Yield = true, true, h.terminal.size(), new(h.yield)
	go func() {
		result, err := h.session.Exec(ctx, request)
		h.tell(func() { h.answered(j, err == nil && result.Running, err) })
	}()
}

// answered handles the answer to the call that started a job. The yield time may end before the job does. The output of the
// command came as events.
func (h *host) answered(j *job, late bool, err error) {
	switch {
	case errors.Is(err, messages.ErrCancelled): // toBack cancelled it
	case err != nil && h.jobs[j.call] == j:
		if errors.Is(err, messages.ErrAborted) && j == h.front {
			for _, l := range h.waiting {
				if !l.end {
					defer h.view.note(fmt.Sprintf("%q does not run either.", l.text))
				}
				l.done(1)
			}
			h.waiting = nil
		}
		if !h.quitting {
			h.view.fail(err)
		}
		h.finish(j, exitCodeOf(err))
	case late && j == h.front:
		if !j.state.reading && !j.fed && h.passing == nil && len(h.waiting) == 0 {
			h.toBack(j)
		}
	}
}

// toBack puts a job into the background, if there is one and it still runs in front.
func (h *host) toBack(j *job) {
	if j == nil || j.background || h.jobs[j.call] != j {
		return
	}
	j.background = true
	h.retire(j)
	if j.id != 0 {
		h.goesOn(j)
	}
	h.next()
}

// retire takes a job from the front.
func (h *host) retire(j *job) {
	if h.front != j {
		return
	}
	h.front = nil
	close(j.away)
	if p := h.passing; p != nil {
		h.endPass("")
		if rest := j.rest; !p.began && len(rest) > 0 { // the passage held it back
			j.rest = nil
			h.view.output(j, messages.StreamStdout, rest)
		}
	}
	h.view.flush()
	h.reprompt()
}

// goesOn stops waiting for a job in the background. It keeps waiting for a job that has not started: there may be a question
// about it.
func (h *host) goesOn(j *job) {
	j.letGo()
	h.view.note(fmt.Sprintf("[%d] goes on in the background. :fg %d brings it back.", j.id, j.id))
}

// finish forgets a job that has ended.
func (h *host) finish(j *job, code int) {
	delete(h.jobs, j.call)
	h.retire(j)
	j.letGo()
	j.done(code)
	h.next()
}

// event shows what happened to a job.
func (h *host) event(event messages.Event) {
	if h.showEvents {
		h.view.note(describe(event))
	}
	if hint := absence(event); hint != "" {
		h.view.note(hint)
	}
	j := h.jobs[event.From().Call]
	if j == nil {
		if notice, ok := event.(messages.ExecNotice); ok {
			h.view.note(notice.Text)
		}
		return
	}
	switch e := event.(type) {
	case messages.ExecStarted:
		j.id, j.began = e.Process, time.Now()
		switch {
		case j.background:
			h.goesOn(j)
		case h.terminal != nil:
			go h.watch(j, e.PID)
			go h.typist(j, j.away)
		}
		if j.interrupted {
			h.send(j, syscall.SIGINT)
		}
	case messages.OutputDelta:
		h.output(j, e)
	case messages.ExecNotice:
		h.view.note(e.Text)
	case messages.ProcessWarning:
		h.view.note(e.Text)
	case messages.ExecEnded:
		switch e.Cause {
		case messages.CauseSpawnFailed, messages.CauseRejected, messages.CauseAborted:
			return // the answer to the call has the reason
		}
		code, known := e.Status.Code()
		if !known {
			code = 125
		}
		h.retire(j)
		h.view.ended(j, e)
		h.finish(j, code)
	}
}

// output shows the output of a job: unchanged while the job has the terminal, and in lines otherwise. The drawing of a
// full-screen program in the background is dropped.
func (h *host) output(j *job, e messages.OutputDelta) {
	if h.terminal == nil {
		h.view.output(j, e.Stream, e.Bytes)
		return
	}
	if j.alternate(e.Bytes) && j == h.front && !j.background {
		h.attach(j)
	}
	j.say()
	switch p := h.passing; {
	case p != nil && p.job == j && p.began:
		h.passOn(p, e.Bytes)
	case p != nil && p.job == j:
		j.rest = append(j.rest, e.Bytes...) // until the line editor releases the terminal, which it does at once
	case !j.alt:
		h.view.output(j, e.Stream, e.Bytes)
	}
}

// absence explains what to do if a command needed an answer and nobody could be asked.
func absence(event messages.Event) string {
	if decision, ok := event.(messages.ToolDecision); !ok || decision.Source != messages.DecidedByAbsence {
		return ""
	}
	return "Nobody can be asked, because input or output is not a terminal. Allow the command with --rules, or choose another --approval."
}

// interrupt handles Ctrl-C, with the text that was on the line. The signal goes to the command in front. If there is none and
// the line was empty, it goes to the command that was started last.
func (h *host) interrupt(typed string) {
	target := h.front
	h.waiting = nil // a terminal drops typed-ahead input, too
	if h.changing != nil {
		h.changing()
		return
	}
	if target == nil && typed == "" {
		for _, j := range h.jobs {
			if target == nil || j.number > target.number {
				target = j
			}
		}
	}
	switch {
	case h.terminal == nil:
		h.interruptScript(target)
	case target != nil && target.id == 0:
		target.interrupted = true
	case target != nil:
		h.view.note(fmt.Sprintf("^C for [%d]", target.id))
		h.send(target, syscall.SIGINT)
	case typed == "":
		h.view.note("^C: nothing runs. :quit or Ctrl-D ends the demo.")
	}
}

// interruptScript sends the signal to the running command, and reads no further line, as a shell does.
func (h *host) interruptScript(at *job) {
	if at == nil {
		h.quit(128 + int(syscall.SIGINT))
		return
	}
	at.done = func(code int) { h.quit(code) }
	if at.interrupted = at.id == 0; !at.interrupted {
		h.send(at, syscall.SIGINT)
	}
}

// send sends a signal. It is not a failure if the command has ended meanwhile.
func (h *host) send(j *job, number syscall.Signal) {
	id := j.id
	go func() {
		err := h.session.Signal(context.Background(), messages.Signal{Process: id, Signal: number})
		if err != nil && !errors.Is(err, messages.ErrUnknownProcess) {
			h.tell(func() { h.view.fail(err) })
		}
	}()
}
