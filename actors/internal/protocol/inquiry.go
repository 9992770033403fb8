package protocol

import (
	"context"
	"time"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
)

// Inquiry is a question on behalf of a running command, which waits for the answer: about a host that it wants to talk to, or about a
// program that it is about to execute. It is put like any other question.
type Inquiry struct {
	Process messages.ProcessID // zero if that is not known, as for a connection without a credential
	Request policy.Request     // with Host or Execution
	until   time.Time          // when the asker goes on without an answer; zero: never
	reply   chan Verdict       // room for one
}

// Inquired is from the goroutine of an inquiry to the session, and Uninquired says that the answer is not wanted any more.
type (
	Inquired   struct{ *Inquiry }
	Uninquired struct{ *Inquiry }
)

// Inquire puts a question to a session, to which send sends, and waits for the verdict. The end of its context withdraws the question; the error is then that
// of the context.
func Inquire(ctx context.Context, send func(message any), process messages.ProcessID, request policy.Request) (Verdict, error) {
	q := &Inquiry{Process: process, Request: request, reply: make(chan Verdict, 1)}
	q.until, _ = ctx.Deadline()
	send(Inquired{q})
	select {
	case v := <-q.reply:
		return v, nil
	case <-ctx.Done():
		send(Uninquired{q})
		return Verdict{}, ctx.Err()
	}
}

// Until is when the asker goes on without an answer; zero: never.
func (q *Inquiry) Until() time.Time { return q.until }

// Answer gives the verdict. Only the first one counts.
func (q *Inquiry) Answer(v Verdict) {
	select {
	case q.reply <- v:
	default:
	}
}

// Refuse answers without a question.
func (q *Inquiry) Refuse(why string) {
	q.Answer(Verdict{Source: messages.DecidedByPolicy, Refusal: shared.Rejected(why)})
}

// Discard answers for a session that is gone.
func (m Inquired) Discard() { m.Refuse(SessionOver) }

// SessionOver is why nothing is asked any more.
const SessionOver = "its session has ended"
