package protocol

import (
	"errors"

	"github.com/execbus/execbus/messages"
)

// CallID names an open call of a session; zero is a request that nobody waits for.
type CallID uint64

// Caller is where the answer of a call goes.
type Caller struct {
	Call  CallID
	Asker Recipient // nil: no caller waits for it
}

// Recipient waits for an answer.
type Recipient interface{ Answer(reply any) }

// CancelCall cancels a call of a process or of a wait. The call is answered, unless it has been.
type CancelCall struct{ Call CallID }

// Answered tells a session that a call has its answer.
type Answered struct{ Call CallID }

// Outcome turns an error of an operation without a result into its reply.
func Outcome(op string, err error) any {
	if err == nil {
		return Done{}
	}
	return AsError(op, err)
}

// AsError turns any error into a messages.Error; nil stays nil.
func AsError(op string, err error) *messages.Error {
	if err == nil {
		return nil
	}
	if typed, ok := errors.AsType[*messages.Error](err); ok {
		return typed
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: op, Detail: err.Error()}
}

// CancelledError is the answer to a call that was cancelled.
func CancelledError(id messages.ProcessID) *messages.Error {
	return &messages.Error{Code: messages.ErrCancelled, Op: "wait for process", Subject: id.String(),
		Detail: "the call was cancelled and took no output"}
}

// EndedError is the answer to a request that comes after the end.
func EndedError(id messages.ProcessID, record *messages.EndRecord) *messages.Error {
	return &messages.Error{Code: messages.ErrProcessEnded, Op: "use process", Subject: id.String(),
		Detail: "it " + record.Words() + "; read its last output, or start the command again", Hint: "call Session.Read", Ended: record}
}
