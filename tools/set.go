package tools

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Set is the tools of one session. Its methods are safe for concurrent use.
type Set struct {
	session *execbus.Session
	options Options
	tools   map[string]tool
}

// New makes the tools of a session. The session stays the caller's, to close.
func New(session *execbus.Session, options Options) *Set {
	s := &Set{session: session, options: options, tools: map[string]tool{}}
	for _, t := range all(options) {
		s.tools[t.Name] = t
	}
	return s
}

// Request is one tool call.
type Request struct {
	// Call is the host's own name for the call; the events of a command carry it. It may be empty.
	Call messages.CallID
	// Name is the tool's name. Arguments is a JSON object; empty and null count as an empty object.
	Name      string
	Arguments json.RawMessage
}

// Answer is the answer to a call.
type Answer struct {
	// Text is for the model: the result, or the error and what to do about it.
	Text string
	// Structured is the same for programs: a value whose JSON fits Tool.Output; nil with an error.
	Structured any
	// Err is the error of the call. A command that fails is not an error.
	Err *messages.Error
	// Process is the process that the call was about, zero if there is none; Running says that further calls may name
	// it.
	Process messages.ProcessID
	Running bool
}

// Call is a tool call that has begun.
type Call struct {
	done   chan struct{}
	answer Answer
}

// Begin begins a call and returns when it has its place: the session receives calls in the order in which their Begin returned, and
// answers them independently of each other; see Order in the package doc. It does not block for longer than it takes to read the
// arguments.
//
// A context that ends cancels the call. The command of a cancelled exec_command is ended, because no answer has named
// it. For all other calls, only the wait ends.
func (s *Set) Begin(ctx context.Context, request Request) *Call {
	c := &Call{done: make(chan struct{})}
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	go func() {
		defer close(c.done)
		defer begin() // a call that asks the session for nothing
		c.answer = s.run(execbus.WithBegun(ctx, begin), request)
	}()
	<-begun
	return c
}

// Done is closed when the call has its answer.
func (c *Call) Done() <-chan struct{} { return c.done }

// Answer waits for the answer.
func (c *Call) Answer() Answer {
	<-c.done
	return c.answer
}

func (s *Set) run(ctx context.Context, request Request) Answer {
	t, known := s.tools[request.Name]
	if !known {
		return failure(request.Name, &messages.Error{Code: messages.ErrInvalidRequest, Op: "call a tool", Subject: request.Name,
			Detail: "there is no such tool; use one that is offered"})
	}
	parsed, err := parse(t.Name, t.parameters, request.Arguments)
	if err != nil {
		return misread(err)
	}
	answer := t.run(ctx, s, request.Call, parsed)
	for _, note := range parsed.notes { // above the output, which could say the same
		answer.Text = note + "\n" + answer.Text
	}
	if answer.Process == 0 && parsed.has(sessionID.name) {
		answer.Process = parsed.process()
	}
	return answer
}

// ProcessOf is the process that the arguments of a call name; zero if they name none, or cannot be read.
func ProcessOf(raw json.RawMessage) messages.ProcessID {
	said := struct {
		Process float64 `json:"session_id"`
	}{}
	if json.Unmarshal(raw, &said) != nil || said.Process < 0 || said.Process > maxWhole {
		return 0
	}
	return messages.ProcessID(said.Process)
}

// typed converts an error to a *messages.Error, the type of all errors of execbus.
func typed(err error) *messages.Error {
	if known, ok := errors.AsType[*messages.Error](err); ok {
		return known
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Detail: err.Error()}
}
