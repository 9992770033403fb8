package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// final is an error after which the session cannot be resumed. All others say that a connection broke, or was not made.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

func permanent(err error) bool {
	_, is := errors.AsType[final](err)
	return is
}

// broken returns the error of a connection that ended. An error that would come again on the next connection is final.
func broken(err error) error {
	if errors.Is(err, wire.ErrTooLarge) {
		return violation("one of its messages has more than %d bytes", wire.MaxMessage)
	}
	return err
}

// violation returns the error of a server that broke the protocol. The client believes nothing else that the server says.
func violation(format string, args ...any) error {
	return final{fmt.Errorf("the server breaks the protocol: "+format, args...)}
}

// disconnected is the error of everything that needs a session which is over.
func disconnected(why error) error {
	if typed, is := errors.AsType[*messages.Error](why); is {
		return typed
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "use server", Detail: "the exec-server transport was disconnected: " +
		clipped(why.Error()) + "; connect again"}
}

// mayRun returns the error of a start that may have succeeded.
func mayRun(err error) error {
	typed, is := errors.AsType[*messages.Error](err)
	if !is || typed.Code == messages.ErrUnsupported {
		return err
	}
	told := *typed
	told.Detail += "; it is not known whether the command was started, and the server ends it if it was"
	return &told
}

var (
	errClosed = &messages.Error{Code: messages.ErrClosed, Op: "use server", Detail: "the connection to the server was closed"}

	errCrowded = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "use server",
		Detail: fmt.Sprintf("%d requests wait for answers from the server; try again later", maxCalls)}

	errNotStarted = &messages.Error{Code: messages.ErrCancelled, Op: "spawn", Detail: "the start was cancelled on the server"}

	errSilent = failed("follow process", "the server has not reported its end in time")

	errUncertain = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "use server",
		Detail: "the connection broke before the server answered, and it is not known whether the request took effect; check before you repeat it"}
)

func cancelled(op string, err error) error {
	return &messages.Error{Code: messages.ErrCancelled, Op: op, Detail: err.Error(), Like: messages.LikeOf(err)}
}

func failed(op, detail string) error {
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: op, Detail: detail}
}

func unsupported(op, detail string) error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: op, Detail: detail}
}

// refusal converts a server's error to a *messages.Error. A server of execbus sends its own *messages.Error along, and the code of that
// one is kept.
func refusal(op, subject string, err error) error {
	fault, is := errors.AsType[*wire.Fault](err)
	if !is {
		return err
	}
	told := &messages.Error{}
	if json.Unmarshal(fault.Data, told) == nil && told.Code != "" {
		return told
	}
	e := &messages.Error{Code: messages.ErrRuntimeFailure, Op: op, Subject: subject, Detail: "the server refused it: " + clipped(fault.Message)}
	switch {
	case fault.Code == wire.UnknownMethod:
		e.Code, e.Detail = messages.ErrUnsupported, "the server cannot do this; use one that can, such as that of execbus"
	case fault.Code == wire.NotFound:
		e.Like, e.Detail = messages.LikeNotExist, "there is no such file on the server's machine; check the path"
	case fault.Code == wire.InvalidParams || fault.Code == wire.InvalidRequest:
		e.Code = messages.ErrInvalidRequest
	case op == "spawn":
		e.Code = messages.ErrSpawnFailed
	}
	return e
}

// maxText bounds how much of a server's text is repeated.
const maxText = 1024

// clipped returns the server's text in a form that can be shown.
func clipped(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text), "")
}
