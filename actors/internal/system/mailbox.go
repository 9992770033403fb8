package system

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox holds the messages of an actor that it has not handled. The library's own mailboxes cannot know who sends, and
// would wake a goroutine for every idle actor.
type mailbox struct {
	c       *Context
	invoker actor.MessageInvoker
	queue   chan *queue // holds the one queue while nobody uses it
}

// queue is the content of a mailbox.
type queue struct {
	system, user []any
	taken        int     // how many of user have been taken
	busy         bool    // a worker has the actor in its line
	parent       *worker // that runs the actor's parent, which starts it; nil after the first message
}

func newMailbox(c *Context, parent *worker) *mailbox {
	m := &mailbox{c: c, queue: make(chan *queue, 1)}
	m.queue <- &queue{parent: parent}
	return m
}

// RegisterHandlers implements the library's Mailbox. The library's dispatcher is not used.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = door{invoker, m.c}
}

// Start implements the library's Mailbox. The actor starts with its first message.
func (m *mailbox) Start() {}

// PostUserMessage implements the library's Mailbox.
func (m *mailbox) PostUserMessage(message any) {
	message, by := opened(message)
	q := <-m.queue
	q.user = append(q.user, message)
	m.posted(q, by)
}

// PostSystemMessage implements the library's Mailbox.
func (m *mailbox) PostSystemMessage(message any) {
	q := <-m.queue
	q.system = append(q.system, message)
	by := q.parent
	q.parent = nil
	m.posted(q, by)
}

// posted puts the queue back, and makes sure that a worker runs the actor.
func (m *mailbox) posted(q *queue, by *worker) {
	idle := !q.busy
	q.busy = true
	m.queue <- q
	if idle && !by.takes(m) {
		m.c.sys.pool.begin(task{line: []*mailbox{m}})
	}
}

// UserMessageCount implements the library's Mailbox.
func (m *mailbox) UserMessageCount() int {
	q := <-m.queue
	defer func() { m.queue <- q }()
	return len(q.user) - q.taken
}

// take takes the next message: system messages overtake the others. If there is none, the actor is idle from then on.
func (m *mailbox) take() (message any, system, there bool) {
	q := <-m.queue
	switch {
	case len(q.system) > 0:
		message, system, there = q.system[0], true, true
		q.system = slices.Delete(q.system, 0, 1)
	case len(q.user) > 0:
		message, there = q.user[q.taken], true
		q.user[q.taken] = nil
		q.taken++
		q.tidy()
	default:
		q.busy = false
	}
	m.queue <- q
	return message, system, there
}

// rests makes the actor idle if it has no message, and reports whether it did.
func (m *mailbox) rests() bool {
	q := <-m.queue
	idle := len(q.system)+len(q.user) == 0
	q.busy = !idle
	m.queue <- q
	return idle
}

// keptRoom is the largest room for messages that an empty mailbox keeps.
const keptRoom = 64

// tidy gives the room of the taken messages to later ones.
func (q *queue) tidy() {
	switch {
	case q.taken == len(q.user) && cap(q.user) > keptRoom:
		q.user, q.taken = nil, 0
	case q.taken == len(q.user):
		q.user, q.taken = q.user[:0], 0
	case q.taken >= keptRoom && q.taken > len(q.user)/2:
		q.user, q.taken = slices.Delete(q.user, 0, q.taken), 0
	}
}

// handle lets the actor handle one message. It reports whether it did; if not, the actor is idle.
func (m *mailbox) handle(w *worker) (did bool) {
	message, system, there := m.take()
	if !there {
		return false
	}
	defer func() {
		if reason := recover(); reason != nil {
			m.invoker.EscalateFailure(reason, message)
			did = true
		}
	}()
	m.c.worker = w
	if system {
		m.invoker.InvokeSystemMessage(message)
	} else {
		m.invoker.InvokeUserMessage(message)
	}
	return true
}

// parcel is a message on its way from an actor, with the worker that runs the actor. It never stays in a mailbox.
type parcel struct {
	message any
	by      *worker
}

// opened takes a message out of its parcel, if it is in one.
func opened(message any) (any, *worker) {
	switch m := message.(type) {
	case *parcel:
		return m.message, m.by
	case *actor.MessageEnvelope:
		if p, is := m.Message.(*parcel); is {
			m.Message = p.message
			return m, p.by
		}
	}
	return message, nil
}

// door sends messages to the dead letters once the actor is closed. The library would still deliver them after
// Stopping, and drop them silently after the end.
type door struct {
	actor.MessageInvoker
	c *Context
}

func (d door) InvokeUserMessage(message any) {
	if d.c.closed {
		d.c.sys.lib.DeadLetter.SendUserMessage(d.c.Self(), message)
		return
	}
	d.MessageInvoker.InvokeUserMessage(message)
}

// EscalateFailure gets a panic that deliver did not catch; we know of none. It keeps the failure from the library's
// supervision, which would suspend the mailbox, with all requests in it, and might restart the actor.
func (d door) EscalateFailure(reason, _ any) { d.c.crash(reason) }
