package actors

import (
	"errors"

	"github.com/execbus/execbus/messages"
)

// outcome turns an error of an operation without a result into its reply.
func outcome(op string, err error) any {
	if err == nil {
		return Done{}
	}
	return asError(op, err)
}

// asError turns any error into a messages.Error; nil stays nil.
func asError(op string, err error) *messages.Error {
	if err == nil {
		return nil
	}
	if typed, ok := errors.AsType[*messages.Error](err); ok {
		return typed
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: op, Detail: err.Error()}
}

// cancelledError is the answer to a call that was cancelled.
func cancelledError(id messages.ProcessID) *messages.Error {
	return &messages.Error{Code: messages.ErrCancelled, Op: "wait for process", Subject: id.String(),
		Detail: "the call was cancelled and took no output"}
}

// endedError is the answer to a request that comes after the end.
func endedError(id messages.ProcessID, record *messages.EndRecord) *messages.Error {
	return &messages.Error{Code: messages.ErrProcessEnded, Op: "use process", Subject: id.String(),
		Detail: "it " + record.Words() + "; read its last output, or start the command again", Hint: "call Session.Read", Ended: record}
}
