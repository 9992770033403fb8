package process

import (
	"context"
	"time"

	"github.com/execbus/execbus/actors/internal/pattern"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// condition is what a call waits for besides the exit and the end of its time.
type condition struct {
	messages.Until
	watched bool      // it counts from now on
	began   time.Time // when that was; zero for a wait, which counts all silence since the last output
	from    int64     // where the output ended then
	met     *messages.Met

	matcher   *pattern.Matcher // nil: there is no pattern
	next      int64            // the offset from which output is to be compared
	comparing bool             // a goroutine has the matcher
	pause     *system.Timer    // of the comparison with a flood; nil if there is none

	said  bool          // there was output since it began
	quiet *system.Timer // nil: it does not run
}

// newCondition is what a call waits for that says u, or nothing; nil if that is the exit and its yield.
func (p *process) newCondition(u *messages.Until) *condition {
	if u == nil && p.settings.AnswerEarly {
		u = &messages.Until{Early: true}
	}
	if u == nil || u.Early && !p.command.TTY {
		return nil
	}
	return &condition{Until: *u}
}

// patient reports whether the call may wait as long as a poll.
func (u *condition) patient() bool { return u != nil && !u.Early }

// stop is called when the call has its answer.
func (u *condition) stop() {
	if u != nil {
		u.quiet.Cancel()
		u.pause.Cancel()
		u.quiet, u.pause, u.watched = nil, nil, false
	}
}

// watch begins to judge the condition of a call; that of a waiting write when its bytes go out.
func (p *process) watch(c *call) {
	u := c.until
	if u == nil || u.watched || c.write != nil && !c.write.sent {
		return
	}
	u.watched, u.from = true, p.output.Log.Total()
	if c.kind == waitCall { // what was met before counts
		u.said = p.output.Unread.Total() > 0
	} else {
		u.began = time.Now()
	}
	u.next = u.from - p.output.Unread.Total()
	if u.From != nil {
		u.next = *u.From
	}
	p.newMatcher(c)
	p.compare(c)
	if c.kind == waitCall {
		p.quietOver(c.Call)
	} else {
		p.armQuiet(c)
	}
	p.happened()
}

// rewatch begins again with the output of another attempt.
func (p *process) rewatch() {
	for _, c := range p.calls {
		if u := c.until; u != nil && u.watched {
			u.from = p.output.Log.Total()
			u.next = max(u.next, u.from)
			p.newMatcher(c)
		}
	}
}

// newMatcher leaves an earlier one to the goroutine that may have it. The pattern was checked with the request.
func (p *process) newMatcher(c *call) {
	u := c.until
	if u.Pattern == "" {
		return
	}
	var typed []byte
	if c.write != nil && p.decision.launch.TTY {
		typed = c.write.bytes
	}
	u.matcher, _ = pattern.New(u.Pattern, typed, u.from)
}

// outputCame is called after every batch of output.
func (p *process) outputCame() {
	p.outputAt = time.Now()
	p.compareOutput()
	for _, c := range p.calls {
		if u := c.until; u != nil && u.watched && (u.quiet == nil || !u.said) {
			u.said = true
			p.armQuiet(c)
		}
	}
	p.happened()
}

// programRuns is called when a program was born.
func (p *process) programRuns() {
	for _, c := range p.calls {
		p.armQuiet(c)
	}
	p.happened()
}

// compareOutput compares new output with the patterns of all calls.
func (p *process) compareOutput() {
	for _, c := range p.calls {
		p.compare(c)
	}
}

const (
	// maxCompared bounds the output that is compared at a time.
	maxCompared = 256 << 10
	// A comparison that is slower than a flood pauses for pauseShare times as long as it took, at most for longestPause: a flood must not
	// take longer because of it.
	pauseShare   = 10
	longestPause = 250 * time.Millisecond
)

// compare compares output with a pattern, in a goroutine, because a pattern may take long. The output is read from the log. So a flood does not
// wait, and if it is faster, the comparison goes on where the log has output again.
func (p *process) compare(c *call) {
	u := c.until
	if u == nil || !u.watched || u.matcher == nil || u.comparing || u.pause != nil || u.next >= p.output.Log.Total() {
		return
	}
	chunks, missed := p.output.Log.ReadFrom(max(u.next, 0), maxCompared)
	u.next += missed
	if len(chunks) == 0 {
		return
	}
	for _, chunk := range chunks {
		u.next = chunk.Offset + int64(len(chunk.Bytes))
	}
	u.comparing = true
	matcher, id := u.matcher, c.Call
	p.ctx.Go(func(context.Context) any {
		began := time.Now()
		for _, chunk := range chunks {
			if end, found := matcher.Push(chunk.Offset, chunk.Bytes); found {
				return compared{call: id, by: matcher, end: end, found: true}
			}
		}
		return compared{call: id, by: matcher, took: time.Since(began)}
	})
}

// compared answers a call whose pattern was found, or goes on.
func (p *process) compared(m compared) {
	c := p.find(m.call)
	if c == nil || c.until == nil {
		return
	}
	u := c.until
	u.comparing = false
	if m.found && m.by == u.matcher && p.answerable() { // otherwise the exit answers it, or another attempt begins
		p.meet(c, messages.Met{Reason: messages.MetPattern, Offset: m.end})
		return
	}
	if u.next >= u.from {
		p.sayNothing(c)
		if p.output.Log.Total()-u.next >= maxCompared {
			u.pause = p.ctx.After(min(pauseShare*m.took, longestPause), compareNow{c.Call})
		}
	}
	p.compare(c)
}

// compareNow goes on with a flood.
func (p *process) compareNow(id protocol.CallID) {
	if c := p.find(id); c != nil && c.until != nil {
		c.until.pause = nil
		p.compare(c)
	}
}

// armQuiet sets the timer for the time without output that is over first. While no program runs there is none.
func (p *process) armQuiet(c *call) {
	u := c.until
	if u == nil || !u.watched || !p.answerable() {
		return
	}
	wait := u.Quiet
	if u.said && u.QuietAfterOutput > 0 && (wait == 0 || u.QuietAfterOutput < wait) {
		wait = u.QuietAfterOutput
	}
	if wait > 0 {
		u.quiet.Cancel()
		u.quiet = p.ctx.After(max(wait-p.quietFor(u), 0), quietOver{c.Call})
	}
}

// quietFor is how long there was no output while a condition was judged and the program ran.
func (p *process) quietFor(u *condition) time.Duration {
	last := u.began
	if p.outputAt.After(last) {
		last = p.outputAt
	}
	if p.attempt.bornAt.After(last) {
		last = p.attempt.bornAt
	}
	return time.Since(last)
}

// quietOver answers a call if there was no output for as long as it waits for.
func (p *process) quietOver(id protocol.CallID) {
	c := p.find(id)
	if c == nil || c.until == nil {
		return
	}
	u := c.until
	u.quiet = nil
	if !p.answerable() { // a program that is born later sets it again
		return
	}
	quiet := p.quietFor(u)
	if u.Quiet > 0 && quiet >= u.Quiet || u.said && u.QuietAfterOutput > 0 && quiet >= u.QuietAfterOutput {
		p.meet(c, messages.Met{Reason: messages.MetQuiet, Offset: p.output.Log.Total()})
		return
	}
	p.armQuiet(c)
}

// meet answers a call whose condition is met. After an exit that it has still to be told of, the exit answers it.
func (p *process) meet(c *call, met messages.Met) {
	if p.exitPending() || !p.answerable() {
		return
	}
	c.until.met = &met
	p.finish(c)
}

// answerable reports whether a program runs, or did and has left others behind that are kept.
func (p *process) answerable() bool {
	s, live := p.state.(*running)
	_, dead := p.state.(*exited)
	return live && s.stage == living || dead && p.told
}

// met is the part of a result about the condition of its call.
func (p *process) met(c *call) *messages.Met {
	switch {
	case c.until == nil:
		return nil
	case c.until.met != nil || c.until.Early:
		return c.until.met
	case p.leaderExited() || !p.usable():
		return &messages.Met{Reason: messages.MetExit, Offset: p.output.Log.Total()}
	default:
		return &messages.Met{Reason: messages.MetNothing, Offset: p.output.Log.Total()}
	}
}
