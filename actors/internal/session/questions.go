package session

import (
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
)

// questions bring the first questions about commands into the order of their calls: a question waits for the plans of the commands
// before it. A command whose plan takes too long is not waited for.
type questions struct {
	patience time.Duration // for a plan, from the command's call on
	queue    []*entry      // commands without a plan, and those that ask behind one
	timed    bool          // planOverdue comes
}

// question is the part of a process in that.
type question struct {
	open  bool              // a verdict is awaited
	waits *protocol.Consult // for the plans of earlier commands; nil if none does
}

// join takes in a new command.
func (q *questions) join(e *entry) { q.queue = append(q.queue, e) }

// ask opens a question.
func (q *questions) ask(e *entry, m protocol.Consult) []effect {
	e.question.open = true
	if !slices.Contains(q.queue, e) { // its plan came late, or it has begun
		return []effect{{entry: e, message: m}}
	}
	e.question.waits = &m
	return q.serve()
}

// leave takes a command that asks nothing out of the queue.
func (q *questions) leave(e *entry) []effect {
	i := slices.Index(q.queue, e)
	if i < 0 || e.question.waits != nil {
		return nil
	}
	q.queue = slices.Delete(q.queue, i, i+1)
	return q.serve()
}

// overdue goes on without a plan that takes too long.
func (q *questions) overdue() []effect {
	q.timed = false
	return q.serve()
}

// serve puts the questions that wait for no earlier plan.
func (q *questions) serve() (do []effect) {
	for len(q.queue) > 0 {
		e := q.queue[0]
		left := q.patience - time.Since(e.info.Began)
		if e.question.waits == nil && left > 0 {
			if !q.timed && slices.ContainsFunc(q.queue, func(other *entry) bool { return other.question.waits != nil }) {
				q.timed = true
				do = append(do, effect{message: planOverdue{}, after: left})
			}
			break
		}
		q.queue = slices.Delete(q.queue, 0, 1)
		if m := e.question.waits; m != nil {
			e.question.waits = nil
			do = append(do, effect{entry: e, message: *m})
		}
	}
	return do
}

// withdraw withdraws a question. A verdict follows, at once for a question that was not put.
func (q *questions) withdraw(e *entry) []effect {
	switch m := e.question.waits; {
	case !e.question.open:
		return nil
	case m == nil:
		return []effect{{entry: e, message: protocol.Withdraw{Process: e.info.Process}}}
	default:
		m.Discard()
		e.question.open, e.question.waits = false, nil
		return []effect{{entry: e, message: protocol.Verdict{Process: e.info.Process}}}
	}
}
