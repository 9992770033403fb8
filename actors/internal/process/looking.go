package process

import (
	"context"
	"net/netip"
	"slices"
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
	keysDue time.Time     // before that, keys are too early an answer

	ports     *system.Timer // of the next look for listening sockets; nil if there is none
	portsDue  time.Time     // when that is
	portsBusy bool
	portsCost time.Duration
	named     []netip.AddrPort // where programs listened when an answer named one of them
	begun     time.Time        // when a look first found another; zero: none has
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
	// handling is what a look costs besides: a timer, a goroutine and two messages.
	handling = 20 * time.Microsecond
	// atOnce is which part of the distance looks come earlier, so that those at many processes come at once: to wake a processor for each
	// costs more than the look.
	atOnce = 16
	// portsDistance is the distance between looks for listening sockets, whatever is printed, as far as lookShare allows. Where only
	// calls that name no reason want them, it is that of other looks if that is longer.
	portsDistance = 20 * time.Millisecond
)

// origin is what the times of looks are rounded from.
var origin = time.Now()

// next is when the next look is due.
func next(now time.Time, distance time.Duration) time.Time {
	since := now.Add(distance).Sub(origin)
	return origin.Add(since - since%max(distance/atOnce, 1))
}

// distance is the time to the next look.
func (l *looking) distance(now time.Time, looking int) time.Duration {
	longest := longestDistance
	if looking > crowd {
		longest = longestInCrowd
	}
	return min(max(now.Sub(l.since)/lookPart, firstLook, time.Duration(looking)*(l.cost+handling)*lookShare), longest)
}

// happened looks soon: something happened after which a program may wait for input.
func (p *process) happened() {
	p.looking.since, p.looking.keysDue = time.Now(), time.Time{}
	p.lookLater()
	p.lookForPorts()
}

// lookLater sets the time of the next look, if a call wants it.
func (p *process) lookLater() {
	l := &p.looking
	if !p.wantsLook() {
		l.timer.Cancel()
		l.timer = nil
		if !p.wants((*call).wantsPort) {
			p.discount()
		}
		return
	}
	if l.busy {
		return
	}
	p.count()
	now := time.Now()
	due := next(now, l.distance(now, len(p.Looking)))
	if l.keysDue.After(due) {
		due = l.keysDue
	}
	if l.timer != nil && !due.Before(l.due) {
		return
	}
	l.timer.Cancel()
	l.timer, l.due = p.ctx.After(due.Sub(now), lookNow{}), due
}

// count counts this process among those that are looked at.
func (p *process) count() {
	if p.looking.counted {
		return
	}
	select {
	case p.Looking <- struct{}{}:
		p.looking.counted = true
	default:
	}
}

// discount is called when nobody wants to know anything any more.
func (p *process) discount() {
	if p.looking.counted {
		<-p.Looking
		p.looking.counted = false
	}
}

// endLooks is called when the actor is about to end.
func (p *process) endLooks() {
	p.looking.timer.Cancel()
	p.looking.ports.Cancel()
	p.looking.timer, p.looking.ports = nil, nil
	p.discount()
}

// wantsLook reports whether a call waits for input, and a child can be asked.
func (p *process) wantsLook() bool { return p.wants((*call).wantsInput) }

// wants reports whether a call wants to know something of a child that can be asked.
func (p *process) wants(it func(*call) bool) bool {
	return p.answerable() && p.looking.blind != p.attempt.number && slices.ContainsFunc(p.calls, it)
}

// wantsInput reports whether a call waits for a program that waits for input. One that writes waits until its own was taken.
func (c *call) wantsInput() bool {
	return c.until != nil && c.until.watched && (c.until.AwaitingInput || c.until.Early) && (c.write == nil || c.write.done)
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
	result := looked{attempt: p.attempt.number, written: p.input.last}
	inquirer := p.inquirer()
	if inquirer == nil {
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

// inquirer is the child, if it can be asked; nil if it cannot.
func (p *process) inquirer() ptyio.Inquirer {
	child := p.attempt.calls.child
	if inquirer, can := child.(ptyio.Inquirer); can && ptyio.IsPrompt(child) {
		return inquirer
	}
	return nil
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
		p.cannotLook(m.err)
	case m.awaited != nil && m.written == p.input.last:
		p.foundReader(*m.awaited)
	}
	p.lookLater()
}

// maxCost bounds what a look is taken to cost: on a busy machine it may have waited for a processor.
const maxCost = 5 * time.Millisecond

// foundReader answers the calls that wait for input.
func (p *process) foundReader(awaited messages.AwaitedInput) {
	for _, c := range slices.Clone(p.calls) {
		if c.wantsInput() && (!awaited.Guess || c.until.Guesses) && (!c.until.Early || awaited.Kind != messages.InputKeys || p.stillForKeys(c)) {
			p.meet(c, messages.Met{Reason: messages.MetAwaitingInput, Offset: p.output.Log.Total(), Input: &awaited})
		}
	}
}

// stillForKeys reports whether something was shown, and then nothing for long enough that keys are a reason for an early answer. If
// only that time is lacking, the next look is at its end.
func (p *process) stillForKeys(c *call) bool {
	if !c.until.said && (c.write != nil || p.output.Unread.Total() == 0) {
		return false
	}
	p.looking.keysDue = p.outputAt.Add(messages.KeysStill)
	return !time.Now().Before(p.looking.keysDue)
}

// wantsPort reports whether a call waits for a program that listens.
func (c *call) wantsPort() bool { return c.wantsNamedPort() || c.wantsNewPort() }

func (c *call) wantsNamedPort() bool {
	return c.until != nil && c.until.watched && c.until.Listening != nil
}

// wantsNewPort reports whether one that no answer has named ends the call.
func (c *call) wantsNewPort() bool { return c.until != nil && c.until.watched && c.until.Early }

// lookForPorts sets the time of the next look for listening sockets, if a call wants it.
func (p *process) lookForPorts() {
	l := &p.looking
	if l.portsBusy || !p.wants((*call).wantsPort) {
		return
	}
	p.count()
	now := time.Now()
	distance := min(max(portsDistance, time.Duration(len(p.Looking))*(l.portsCost+handling)*lookShare), longestInCrowd)
	if !p.wants((*call).wantsNamedPort) {
		distance = max(distance, l.distance(now, len(p.Looking)))
	}
	due := next(now, distance)
	if l.ports != nil && !due.Before(l.portsDue) {
		return
	}
	l.ports.Cancel()
	l.ports, l.portsDue = p.ctx.After(due.Sub(now), portsNow{}), due
}

// portsNow looks in a goroutine.
func (p *process) portsNow() {
	l := &p.looking
	l.ports = nil
	if !p.wants((*call).wantsPort) {
		p.lookLater()
		return
	}
	inquirer := p.inquirer()
	if inquirer == nil {
		p.cannotLook(errNotObserved)
		p.lookLater() // which no longer counts this process
		return
	}
	l.portsBusy = true
	attempt := p.attempt.number
	p.ctx.Go(func(context.Context) any {
		began := time.Now()
		found, err := inquirer.Listeners()
		return ports{attempt, found, err, time.Since(began)}
	})
}

// foundPorts answers the calls that wait for one of the ports.
func (p *process) foundPorts(m ports) {
	l := &p.looking
	l.portsBusy, l.portsCost = false, min(m.cost, maxCost)
	switch {
	case p.attempt == nil || m.attempt != p.attempt.number:
	case m.err != nil:
		p.cannotLook(m.err)
	default:
		p.foundListeners(m.found)
	}
	p.lookForPorts()
	p.lookLater()
}

// foundListeners answers the calls that wait for one of them.
func (p *process) foundListeners(found []ptyio.Listener) {
	isNew := p.newListener(found)
	for _, c := range slices.Clone(p.calls) {
		at := slices.IndexFunc(found, func(f ptyio.Listener) bool {
			return c.wantsNamedPort() && (*c.until.Listening == 0 || *c.until.Listening == f.Address.Port()) || c.wantsNewPort() && isNew(f)
		})
		if at < 0 {
			continue
		}
		p.meet(c, messages.Met{Reason: messages.MetListening, Offset: p.output.Log.Total(), Address: found[at].Address.String()})
		if c.kind == waitCall { // one that is asked again has the same answer
			continue
		}
		p.looking.named, p.looking.begun = nil, time.Time{}
		for _, f := range found {
			p.looking.named = append(p.looking.named, f.Address)
		}
	}
}

// newListener tells which listeners no answer has named; none before nothing was printed for long enough after the first began.
func (p *process) newListener(found []ptyio.Listener) func(ptyio.Listener) bool {
	l := &p.looking
	l.named = slices.DeleteFunc(l.named, func(named netip.AddrPort) bool {
		return !slices.ContainsFunc(found, func(f ptyio.Listener) bool { return f.Address == named })
	})
	named := slices.Clone(l.named)
	isNew := func(f ptyio.Listener) bool { return !slices.Contains(named, f.Address) }
	now := time.Now()
	switch {
	case !slices.ContainsFunc(found, isNew):
		l.begun = time.Time{}
	case l.begun.IsZero():
		l.begun = now
	}
	if now.Sub(l.begun) < messages.ListenStill || now.Sub(p.outputAt) < messages.ListenStill {
		return func(ptyio.Listener) bool { return false }
	}
	return isNew
}

// cannotLook stops the looks at a child, and tells the host, once in a session, that nobody can see what its processes wait for.
func (p *process) cannotLook(why error) {
	p.looking.blind = p.attempt.number
	select {
	case p.Blind <- struct{}{}:
		p.Bus.Publish(messages.ExecNotice{Origin: p.origin(), Text: "calls that wait until a program wants input, or listens, are answered at the end of their yields: " + why.Error()})
	default:
	}
}
