package mcp

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// DefaultQuestionPatience is the default of Options.QuestionPatience.
const DefaultQuestionPatience = 10 * time.Minute

// Options of a Server. The zero value is useful.
type Options struct {
	// Session has the options for the session of each client. Its Approver is ignored: the client is asked.
	Session execbus.SessionOptions
	// SandboxSettings and AssuranceSetting name the server's settings to a model that needs more: see tools.Options.
	SandboxSettings, AssuranceSetting string
	// HideShell leaves the argument shell out of exec_command.
	HideShell bool
	// Detach lets processes live on when the client of a stream has gone. ServeStream then returns when they have ended by
	// themselves. It has no effect on clients over HTTP.
	Detach bool
	// QuestionPatience is how long a question waits for its answer if the client has protocol version 2026-07-28 or later. Then
	// the call is cancelled. Zero means DefaultQuestionPatience.
	QuestionPatience time.Duration
	// Version is the version that the server reports; it may be empty.
	Version string
	// Logger gets the records of the protocol library. Nil means that nothing is logged.
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

// tools returns the options of the tools.
func (o Options) tools() tools.Options {
	return tools.Options{Session: o.Session, SandboxSettings: o.SandboxSettings, AssuranceSetting: o.AssuranceSetting, HideShell: o.HideShell}
}
