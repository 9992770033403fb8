package process

import (
	"fmt"
	"slices"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
)

// maxAgain bounds the input that is kept for another attempt, in bytes. It is not above ptyio.MaxPendingInput, because it is given in
// one piece.
const maxAgain = 1 << 20

// forever stands for no bound.
const forever = 100 * 365 * 24 * time.Hour

// again is the input that another attempt gets, too.
type again struct {
	bytes []byte
	ended bool
	spent string // why there can be no other attempt; empty if there can
}

// mayRepeat reports whether another attempt may follow the current one.
func (p *process) mayRepeat() bool {
	_, live := p.state.(*running)
	return live && p.decision.launch.Sandbox != nil && p.decision.plan.OnDenial != policy.Return && !p.ending.wanted && p.asker() != nil
}

// keepInput keeps what an attempt was given. It reports whether the rest of the write, which a dead attempt did not take, is for
// the next.
func (p *process) keepInput(w *write) (later bool) {
	if !p.mayRepeat() {
		return false
	}
	a := &p.input.again
	switch {
	case w.finish:
		a.ended = true
	case !w.repeatable && w.taken > 0:
		a.spend(writtenTo)
	case w.repeatable && w.err != nil && (w.err.Code == messages.ErrClosed || w.err.Code == messages.ErrStdinClosed && !a.ended && p.hasInput()):
		a.keep(w.bytes)
		return true
	case w.repeatable:
		a.keep(w.bytes[:w.taken])
	}
	return false
}

// hasInput reports whether the command can read anything.
func (p *process) hasInput() bool { return p.decision.launch.TTY || p.decision.launch.OpenStdin }

func (a *again) keep(p []byte) {
	if len(a.bytes)+len(p) > maxAgain {
		a.spend(tooMuch)
	} else if a.spent == "" {
		a.bytes = append(a.bytes, p...)
	}
}

func (a *again) spend(why string) { a.bytes, a.spent = nil, why }

const writtenTo = "it had taken input, which may be an answer to its output"

var tooMuch = fmt.Sprintf("it was given more than %d bytes of input, which are not kept", maxAgain)

// spent says why the input rules out another attempt; empty if it does not. Writes that the child has not reported on may have
// been taken.
func (in *input) spent() string {
	all := len(in.again.bytes)
	for _, w := range in.sent {
		if !w.repeatable && !w.finish {
			return writtenTo
		}
		all += len(w.bytes)
	}
	if in.again.spent == "" && all > maxAgain {
		return tooMuch
	}
	return in.again.spent
}

// giveAgain gives another attempt the input of the one before. Writes that wait come after it.
func (p *process) giveAgain() {
	given := p.input.again
	p.input.again = again{}
	if len(given.bytes) > 0 {
		p.input.pending += len(given.bytes)
		p.send(&call{clock: clock{endless: true}, write: &write{bytes: given.bytes, patience: forever, untilTaken: true, repeatable: true}})
	}
	if given.ended {
		p.send(&call{clock: clock{endless: true}, write: &write{finish: true, untilTaken: true}})
	}
	p.answerKept(true)
}

// answerKept answers the writes that an attempt did not take as a whole: the next one has them, or there is none.
func (p *process) answerKept(next bool) {
	for _, c := range slices.Clone(p.calls) {
		if w := c.write; w != nil && w.repeatable && w.done {
			if next {
				w.taken, w.err = len(w.bytes), nil
			}
			p.answer(c, p.bareResult(w))
		}
	}
}
