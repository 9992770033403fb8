package process

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// looking is the search for a program that waits for input, while a call wants to know. Looks are the rarer, the longer nothing happens.
type looking struct {
	readers plan          // of looks for a program that waits for input
	blind   int           // the attempt whose child cannot be looked at
	since   time.Time     // when something happened last: output, input, a start, a call
	cost    time.Duration // of a look; a few that took longer had to wait for a processor
	paid    time.Time     // until when the looks so far have taken their share of a processor
	retry   time.Duration // the least distance of the next look, after looks that have failed
	counted bool          // it has a token of Dependencies.Looking
	keysDue time.Time     // before that, keys are too early an answer

	ports      plan // of looks for listening sockets
	portsCost  time.Duration
	portsRetry time.Duration
	named      []netip.AddrPort // where programs listened when an answer named one of them
	begun      time.Time        // when a look first found another; zero: none has
	newDue     time.Time        // before that, it is too early an answer; the next look is then
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
	// longest distance allows. The first looks at a process after a while come as soon as they should: they take what lookCredit has left,
	// which is about 8 ms of a processor, and enough for the start of a program with a dozen threads.
	lookShare  = 25
	lookCredit = 200 * time.Millisecond
	// handling is what a look costs besides: a timer, a goroutine and two messages.
	handling = 20 * time.Microsecond
	// atOnce is by which part of the distance looks may come earlier, so that those at many processes come at once: to wake a processor for
	// each costs more than the look.
	atOnce = 8
	// firstRetry is the least distance after a look that has failed; it doubles with each that fails, up to longestDistance: a
	// program may be hidden for as long as it runs, and another begin to wait.
	firstRetry = 10 * time.Millisecond
	// portsDistance is the distance between looks for listening sockets, whatever is printed, as far as lookShare allows. Where only
	// calls that name no reason want them, it is that of other looks if that is longer.
	portsDistance = 20 * time.Millisecond
)

// together is the roundest time of the last part of a distance from now: where times of looks at several processes may be the same, they are.
// Round are multiples of a second, of half of it, and so on, so that looks with a second between them stay together.
func together(now time.Time, distance time.Duration) time.Time {
	latest := now.Add(distance)
	for step := int64(time.Second); step > 1; step /= 2 {
		if past := latest.UnixNano() % step; past <= int64(distance/atOnce) {
			return latest.Add(-time.Duration(past))
		}
	}
	return latest
}

// next is when the next look is due, if so many processes are looked at.
func (l *looking) next(now time.Time, looking int) time.Time {
	longest := longestDistance
	if looking > crowd {
		longest = longestInCrowd
	}
	return together(now, max(min(max(now.Sub(l.since)/lookPart, firstLook, l.paid.Add(-lookCredit).Sub(now)), longest), l.retry))
}

// pay notes what a look has cost.
func (l *looking) pay(now time.Time, cost time.Duration, looking int) {
	if l.paid.Before(now) {
		l.paid = now
	}
	l.cost = costOf(l.cost, cost)
	l.paid = l.paid.Add(time.Duration(looking) * (l.cost + handling) * lookShare)
	if latest := now.Add(lookCredit + longestInCrowd); l.paid.After(latest) {
		l.paid = latest
	}
}

// costOf is what a look costs, after one that took so long. It grows slowly: on a busy machine that one may have waited for a processor.
func costOf(before, took time.Duration) time.Duration {
	if before == 0 {
		return min(took, maxCost)
	}
	return min(took, before+before/8, maxCost)
}

// happened looks soon: something happened after which a program may wait for input.
func (p *process) happened() {
	p.looking.since, p.looking.keysDue = time.Now(), time.Time{}
	p.lookLater()
	p.lookForPorts()
}

// plan is when the next look of one kind begins.
type plan struct {
	timer *system.Timer // nil if no look is planned or under way
	due   time.Time
	begun bool // it is under way for certain
}

// off takes back what is planned. A look that has begun goes on.
func (l *plan) off() {
	if l.timer == nil || l.begun {
		return
	}
	if l.begun = !l.timer.Cancel(); !l.begun {
		l.timer = nil
	}
}

// earlier makes room for a look that is due at that time, unless one is planned for an earlier one, or under way.
func (l *plan) earlier(due time.Time) bool {
	if l.timer != nil && !due.Before(l.due) {
		return false
	}
	l.off()
	return l.timer == nil
}

// lookLater sets the time of the next look, if a call wants it.
func (p *process) lookLater() {
	l := &p.looking
	if !p.wantsLook() {
		l.readers.off()
		if !p.wants((*call).wantsPort) {
			p.discount()
		}
		return
	}
	p.count()
	now := time.Now()
	due := later(l.next(now, len(p.Looking)), l.keysDue)
	if !l.readers.earlier(due) {
		return
	}
	attempt, written := p.attempt.number, p.input.last
	l.readers = plan{due: due, timer: inquire(p, due.Sub(now), ptyio.Inquirer.AwaitedInput, func(awaited *messages.AwaitedInput, err error, cost time.Duration) any {
		return looked{attempt, written, awaited, err, cost}
	})}
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
	p.looking.readers.off()
	p.looking.ports.off()
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

// inquire puts a question to the child in a goroutine, after a while, and the answer comes as a message. A child of a host's own has a
// bounded time for it.
func inquire[T any](p *process, wait time.Duration, question func(ptyio.Inquirer) (T, error), message func(T, error, time.Duration) any) *system.Timer {
	inquirer, can := p.attempt.calls.child.(ptyio.Inquirer)
	sys, self, prompt, patience := p.ctx.System(), p.ctx.Self(), p.attempt.calls.prompt, p.Patience.Child
	return p.ctx.Later(wait, func(context.Context) any {
		began := time.Now()
		switch {
		case !can:
			var none T
			return message(none, errNotObserved, 0)
		case prompt:
			found, err := question(inquirer)
			return message(found, err, time.Since(began))
		}
		bound, cancel := context.WithTimeout(context.Background(), patience)
		hostcode.Call[T]{Who: "the spawner of these processes", Do: func(context.Context) (T, error) { return question(inquirer) }}.Go(bound, func(found T, err error) {
			cancel()
			sys.Send(self, message(found, err, min(time.Since(began), foreignCost)))
		})
		return nil
	})
}

var errNotObserved = &messages.Error{Code: messages.ErrUnsupported, Op: "look at process",
	Detail: "the spawner of these processes does not say what they wait for; wait for output or an exit instead"}

// looked answers the calls that have waited for this. A look that began before the newest write is void.
func (p *process) looked(m looked) {
	l := &p.looking
	l.readers = plan{}
	l.pay(time.Now(), m.cost, len(p.Looking))
	switch {
	case p.attempt == nil || m.attempt != p.attempt.number:
	case p.cannotLook(m.err, &l.retry):
	case m.awaited != nil && m.written == p.input.last:
		p.foundReader(*m.awaited)
	}
	p.lookLater()
}

// maxCost bounds what a look is taken to cost, and foreignCost that at the child of a host's own: that child may be on another machine, and
// the look mostly a wait.
const (
	maxCost     = 5 * time.Millisecond
	foreignCost = 100 * time.Microsecond
)

// foundReader answers the calls that wait for input.
func (p *process) foundReader(awaited messages.AwaitedInput) {
	for _, c := range slices.Clone(p.calls) {
		if c.wantsInput() && awaited.Hidden && !c.until.Guesses {
			p.tellBlind(errHidden)
		}
		if c.wantsInput() && (!awaited.Guess || c.until.Guesses) && (!c.until.Early || awaited.Kind != messages.InputKeys || p.stillForKeys(c, awaited.Only)) {
			p.meet(c, messages.Met{Reason: messages.MetAwaitingInput, Offset: p.output.Log.Total(), Input: &awaited})
		}
	}
}

// stillForKeys reports whether something was shown, and then, unless the program can do nothing else, nothing for long enough that keys are a
// reason for an early answer. If only that time is lacking, the next look is at its end.
func (p *process) stillForKeys(c *call, only bool) bool {
	if !c.until.said && (c.write != nil || p.output.Unread.Total() == 0) {
		return false
	}
	if only {
		return true
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
	if !p.wants((*call).wantsPort) {
		l.ports.off()
		return
	}
	p.count()
	now := time.Now()
	distance := max(min(max(portsDistance, time.Duration(len(p.Looking))*(l.portsCost+handling)*lookShare), longestInCrowd), l.portsRetry)
	due := together(now, distance)
	if look := l.next(now, len(p.Looking)); !p.wants((*call).wantsNamedPort) {
		if due = later(due, look); l.newDue.After(now) {
			due = later(l.newDue, now.Add(l.portsRetry))
		}
	}
	if !l.ports.earlier(due) {
		return
	}
	attempt := p.attempt.number
	l.ports = plan{due: due, timer: inquire(p, due.Sub(now), ptyio.Inquirer.Listeners, func(found []ptyio.Listener, err error, cost time.Duration) any {
		return ports{attempt, found, err, cost}
	})}
}

// foundPorts answers the calls that wait for one of the ports.
func (p *process) foundPorts(m ports) {
	l := &p.looking
	l.ports, l.portsCost = plan{}, costOf(l.portsCost, m.cost)
	switch {
	case p.attempt == nil || m.attempt != p.attempt.number:
	case p.cannotLook(m.err, &l.portsRetry):
	default:
		p.foundListeners(m.found)
	}
	p.lookForPorts()
	p.lookLater()
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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
		p.looking.named, p.looking.begun, p.looking.newDue = nil, time.Time{}, time.Time{}
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
		l.begun, l.newDue = time.Time{}, time.Time{}
		return isNew
	case l.begun.IsZero():
		l.begun = now
	}
	if l.newDue = later(l.begun, p.outputAt).Add(messages.ListenStill); now.Before(l.newDue) {
		return func(ptyio.Listener) bool { return false }
	}
	return isNew
}

// cannotLook reports whether a look has failed. The next one is later then, or never if none can succeed; the child of a host's own that did
// not answer in time is not asked again, because it may still be about to.
func (p *process) cannotLook(why error, retry *time.Duration) bool {
	if why == nil {
		*retry = 0
		return false
	}
	if _, failed := errors.AsType[*hostcode.Failure](why); failed || errors.Is(why, messages.ErrUnsupported) {
		p.looking.blind = p.attempt.number
	}
	*retry = min(max(2**retry, firstRetry), longestDistance)
	p.tellBlind(why)
	return true
}

var errHidden = errors.New("the system does not show what some programs do; wait for guesses, too, or look at the output")

// tellBlind tells the host, once in a session, that it is not always seen what its processes wait for.
func (p *process) tellBlind(why error) {
	select {
	case p.Blind <- struct{}{}:
		p.Bus.Publish(messages.ExecNotice{Origin: p.origin(),
			Text: "calls that wait until a program wants input, or listens, may be answered only at the end of their yields: " + why.Error()})
	default:
	}
}
