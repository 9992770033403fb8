package tools

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// The tools that start a process, and that go on with one.
const (
	ExecCommand = "exec_command"
	WriteStdin  = "write_stdin"
)

// Instructions tell a model the purpose of the tools together.
const Instructions = "Runs commands. " + ExecCommand + " starts one and answers with its output, or with a session ID while it still runs; " +
	WriteStdin + " then writes to it or waits for more. End what is not needed any more with terminate_process."

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
	tools := []tool{execCommand(options), writeStdin(options), readOutput(), listProcesses(), terminateProcess(), sendSignal(), resize()}
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
