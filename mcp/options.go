package mcp

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// DefaultQuestionPatience is Options.QuestionPatience where none is named.
const DefaultQuestionPatience = 10 * time.Minute

// Options of a Server. The zero value is useful.
type Options struct {
	// Session is what the session of each client is opened with. An Approver in it is ignored: the client is asked.
	Session execbus.SessionOptions
	// HideShell leaves the argument shell out of exec_command.
	HideShell bool
	// Detach lets processes live on when a client on a stream has gone: ServeStream then returns when they have ended by
	// themselves. Clients over HTTP are not concerned.
	Detach bool
	// QuestionPatience is how long a command waits for a client of protocol version 2026-07-28 or later to come back with the
	// answer to a question; then the call is taken back. Zero means DefaultQuestionPatience.
	QuestionPatience time.Duration
	// Version is what the server says its own version is; it may be empty.
	Version string
	// Logger gets what the protocol library has to say. Nil means that nothing is logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.QuestionPatience < 0 {
		return o, &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "Options.QuestionPatience",
			Detail: fmt.Sprintf("%v is negative; use a positive duration, or 0 for %v", o.QuestionPatience, DefaultQuestionPatience)}
	}
	if o.QuestionPatience == 0 {
		o.QuestionPatience = DefaultQuestionPatience
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Session.Approver = nil
	return o, nil
}

// tools are the options of what is offered.
func (o Options) tools() tools.Options {
	return tools.Options{Session: o.Session, HideShell: o.HideShell}
}
