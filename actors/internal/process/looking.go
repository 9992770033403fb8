package process

import (
	"context"
	"time"

	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// looking is the search for a program that waits for input, while a call wants to know. Looks are the rarer, the longer nothing happens.
type looking struct {
	timer   *system.Timer // of the next look; nil if there is none
	due     time.Time     // when that is
	busy    bool          // a look is under way
	blind   int           // the attempt whose child cannot be looked at
	since   time.Time     // when something happened last: output, input, a start, a call
	cost    time.Duration // of the last look
	counted bool          // it has a token of Dependencies.Looking
}

const (
	// firstLook is the distance of the first look from what happened.
	firstLook = time.Millisecond
	// lookPart is which part of the time without news the distance between looks is.
	lookPart = 10
	// longestDistance bounds the distance; where more than crowd processes are looked at, it is longestInCrowd.
	longestDistance = 250 * time.Millisecond
	longestInCrowd  = time.Second
	crowd           = 100
	// lookShare bounds the looks at all processes together to about one part in so many of one processor, as far as the
	// longest distance allows.
	lookShare = 25
)

// distance is the time to the next look.
func (l *looking) distance(now time.Time, looking int) time.Duration {
	longest := longestDistance
	if looking > crowd {
		longest = longestInCrowd
	}
	return min(max(now.Sub(l.since)/lookPart, firstLook, time.Duration(looking)*l.cost*lookShare), longest)
}

// happened looks soon: something happened after which a program may wait for input.
func (p *process) happened() {
	p.looking.since = time.Now()
	p.lookLater()
}

// lookLater sets the time of the next look, if a call wants it.
func (p *process) lookLater() {
	l := &p.looking
	if !p.wantsLook() {
		p.endLooks()
		return
	}
	if l.busy {
		return
	}
	if !l.counted {
		select {
		case p.Looking <- struct{}{}:
			l.counted = true
		default:
		}
	}
	now := time.Now()
	due := now.Add(l.distance(now, len(p.Looking)))
	if l.timer != nil && !due.Before(l.due) {
		return
	}
	l.timer.Cancel()
	l.timer, l.due = p.ctx.After(due.Sub(now), lookNow{}), due
}

// endLooks is called when nobody wants to know any more.
func (p *process) endLooks() {
	l := &p.looking
	l.timer.Cancel()
	l.timer = nil
	if l.counted {
		<-p.Looking
		l.counted = false
	}
}

// wantsLook reports whether a call waits for input, and a child can be asked.
func (p *process) wantsLook() bool {
	if !p.answerable() || p.looking.blind == p.attempt.number {
		return false
	}
	for _, c := range p.calls {
		if c.wantsInput() {
			return true
		}
	}
	return false
}

// wantsInput reports whether a call waits for a program that waits for input. One that writes waits until its own was taken.
func (c *call) wantsInput() bool {
	return c.until != nil && c.until.watched && c.until.AwaitingInput && (c.write == nil || c.write.done)
}

// lookNow looks in a goroutine.
func (p *process) lookNow() {
	l := &p.looking
	l.timer = nil
	if !p.wantsLook() || l.busy {
		p.lookLater()
		return
	}
	l.busy = true
	child, result := p.attempt.calls.child, looked{attempt: p.attempt.number, written: p.input.last}
	inquirer, can := child.(ptyio.Inquirer)
	if !can || !ptyio.IsPrompt(child) {
		result.err = errNotObserved
		p.looked(result)
		return
	}
	p.ctx.Go(func(context.Context) any {
		began := time.Now()
		result.awaited, result.err = inquirer.AwaitedInput()
		result.cost = time.Since(began)
		return result
	})
}

var errNotObserved = &messages.Error{Code: messages.ErrUnsupported, Op: "look at process",
	Detail: "the spawner of these processes does not say what they wait for; answers come at the end of their yields"}

// looked answers the calls that have waited for this. A look that began before the newest write is void.
func (p *process) looked(m looked) {
	l := &p.looking
	l.busy, l.cost = false, min(m.cost, maxCost)
	switch {
	case p.attempt == nil || m.attempt != p.attempt.number:
	case m.err != nil:
		l.blind = m.attempt
		p.tellBlind(m.err)
	case m.awaited != nil && m.written == p.input.last:
		p.foundReader(*m.awaited)
	}
	p.lookLater()
}

// maxCost bounds what a look is taken to cost: on a busy machine it may have waited for a processor.
const maxCost = 5 * time.Millisecond

// foundReader answers the calls that wait for input.
func (p *process) foundReader(awaited messages.AwaitedInput) {
	for i := 0; i < len(p.calls); {
		c, waiting := p.calls[i], len(p.calls)
		if c.wantsInput() && (!awaited.Guess || c.until.Guesses) {
			p.meet(c, messages.Met{Reason: messages.MetAwaitingInput, Offset: p.output.Log.Total(), Input: &awaited})
		}
		if len(p.calls) == waiting { // otherwise it is gone from the list
			i++
		}
	}
}

// tellBlind tells the host, once in a session, that nobody can see what its processes wait for.
func (p *process) tellBlind(why error) {
	select {
	case p.Blind <- struct{}{}:
		p.Bus.Publish(messages.ExecNotice{Origin: p.origin(), Text: "calls that wait until a program wants input are answered at the end of their yields: " + why.Error()})
	default:
	}
}
