package system

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/execbus/execbus/messages"
)

// Unanswered tells the sender of a request that no reply will come from the actor it reached: it has ended (Err matches
// messages.ErrClosed), or it crashed while it handled this message (messages.ErrRuntimeFailure).
type Unanswered struct {
	To      *PID
	Message any
	Err     *messages.Error
}

// Discarder is a message that owns something. Discard is called instead of the delivery if the actor has ended, from any
// goroutine, so it must not block.
type Discarder interface{ Discard() }

// deadLetter gets every message that cannot be delivered any more.
func (s *System) deadLetter(event any) {
	letter, ok := event.(*actor.DeadLetterEvent)
	if !ok {
		return
	}
	if watch, ok := letter.Message.(*actor.Watch); ok {
		s.Send(watch.Watcher, Terminated{letter.PID})
		return
	}
	s.logger.Debug("message for an ended actor", "actor", letter.PID.GetId(), "message", fmt.Sprintf("%T", letter.Message))
	if letter.Sender != nil {
		s.Send(letter.Sender, unanswered(letter.PID, letter.Message))
	}
	if owner, ok := letter.Message.(Discarder); ok {
		s.discard(letter.PID, owner)
	}
}

// discard keeps a panic away from the sender, in whose goroutine this may run.
func (s *System) discard(from *PID, owner Discarder) {
	defer func() {
		if reason := recover(); reason != nil {
			s.logPanic("discarding a message panicked", from, fmt.Sprintf("%T", owner), reason)
		}
	}()
	owner.Discard()
}

func unanswered(to *PID, message any) Unanswered {
	return Unanswered{to, message, &messages.Error{Code: messages.ErrClosed, Op: "ask", Subject: to.GetId(),
		Detail: "the actor has ended", Hint: fmt.Sprintf("a %T came too late", message)}}
}
