package tools

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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
	// MoreKept says that output which the process's buffer had no room for was left out, and can be read.
	MoreKept bool
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

// ProcessesOf are the processes that the arguments of a call name; none if they cannot be read.
func ProcessesOf(raw json.RawMessage) (all []messages.ProcessID) {
	type named struct {
		Process float64 `json:"session_id"`
	}
	said := struct {
		named
		Processes []named `json:"processes"`
	}{}
	if json.Unmarshal(raw, &said) != nil {
		return nil
	}
	for _, one := range append([]named{said.named}, said.Processes...) {
		if one.Process > 0 && one.Process <= maxWhole && len(all) < messages.MaxWaitItems {
			all = append(all, messages.ProcessID(one.Process))
		}
	}
	return all
}

// typed converts an error to a *messages.Error, the type of all errors of execbus.
func typed(err error) *messages.Error {
	if known, ok := errors.AsType[*messages.Error](err); ok {
		return known
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Detail: err.Error()}
}

// The tools that start a process, and that go on with one.
const (
	ExecCommand = "exec_command"
	WriteStdin  = "write_stdin"
)

// Instructions tell a model the purpose of the tools together.
const Instructions = "Runs commands. " + ExecCommand + " starts one and answers with its output, or with a session ID while it still runs; " +
	WriteStdin + " then writes to it or waits for more. End what is not needed any more with terminate_process. " + ApplyPatch + " changes files."

// Tool describes one tool to a model.
type Tool struct {
	Name        string
	Title       string // for people
	Description string // for the model
	// Input and Output are JSON schemas: of the arguments, and of Answer.Structured.
	Input, Output json.RawMessage
	// ReadOnly says that the tool changes nothing, Destructive that it may destroy something.
	ReadOnly, Destructive bool
}

// Options adapt the tools to a session.
type Options struct {
	// Session has the options of the session: descriptions state its limits and its sandbox.
	Session execbus.SessionOptions
	// SandboxSettings and AssuranceSetting name the settings with which the user changes the session's sandbox and its least
	// assurance, such as "--sandbox and --network" and "--assurance". A model that needs more is told to name them to the user.
	SandboxSettings, AssuranceSetting string
	// HideShell leaves the argument shell out of exec_command: the user's own shell is used.
	HideShell bool
	// SeparateStreams gives a command on pipes one pipe for stdout and one for stderr, so that the events of its output name the
	// stream. By default both are one pipe, and a model reads the output in the order in which it was written. A spawner on a
	// server that is not of execbus may be unable to merge them.
	SeparateStreams bool
	// WholeOutput leaves the output in Answer.Structured uncut if a call does not set max_output_tokens. It is for
	// programs, which have more room than a model.
	WholeOutput bool
}

// tool is one tool of this package: its description and its function.
type tool struct {
	Tool
	parameters []parameter
	output     map[string]any
	run        func(ctx context.Context, s *Set, call messages.CallID, a arguments) Answer
}

// all are the tools, in the order in which they are listed.
func all(options Options) []tool {
	tools := []tool{execCommand(options), writeStdin(options), applyPatch(options), readOutput(options), listProcesses(), waitProcesses(), terminateProcess(), sendSignal(), resize()}
	for i, t := range tools {
		properties := map[string]any{}
		var required []string
		for _, p := range offered(t.parameters) {
			properties[p.name] = p.schema()
			if p.required {
				required = append(required, p.name)
			}
		}
		t.output["properties"].(map[string]any)["notes"] = map[string]any{"type": "array", "items": map[string]any{"type": "string"},
			"description": "What else there is to know about the call, one sentence each."}
		tools[i].Input, tools[i].Output = asJSON(closed(properties, required...)), asJSON(t.output)
	}
	return tools
}

// List describes the tools.
func List(options Options) []Tool {
	var list []Tool
	for _, t := range all(options) {
		list = append(list, t.Tool)
	}
	return list
}

// offered are the parameters in the schema for a model.
func offered(parameters []parameter) []parameter {
	return slices.DeleteFunc(slices.Clone(parameters), func(p parameter) bool { return p.hidden })
}

// asJSON is for values that always have a JSON form.
func asJSON(value any) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return encoded
}
