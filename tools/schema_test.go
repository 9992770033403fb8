package tools_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
	"github.com/execbus/execbus/tools"
)

type schema struct {
	Type                 string            `json:"type"`
	Properties           map[string]schema `json:"properties"`
	Required             []string          `json:"required"`
	AdditionalProperties *bool             `json:"additionalProperties"`
	Enum                 []string          `json:"enum"`
	Description          string            `json:"description"`
}

func describe(t *testing.T, options tools.Options, name string) (tools.Tool, schema, schema) {
	t.Helper()
	for _, tool := range tools.List(options) {
		if tool.Name == name {
			var in, out schema
			if err := json.Unmarshal(tool.Input, &in); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(tool.Output, &out); err != nil {
				t.Fatal(err)
			}
			return tool, in, out
		}
	}
	t.Fatalf("there is no tool %s", name)
	return tools.Tool{}, schema{}, schema{}
}

func types(s schema) map[string]string {
	all := map[string]string{}
	for name, property := range s.Properties {
		all[name] = property.Type
	}
	return all
}

var outcome = map[string]string{"chunk_id": "string", "wall_time_seconds": "number", "exit_code": "number", "session_id": "number",
	"state": "string", "original_token_count": "number", "output": "string", "notes": "array"}

func TestSchemaOfExecCommand(t *testing.T) {
	tool, in, out := describe(t, tools.Options{}, "exec_command")
	want := map[string]string{"cmd": "string", "workdir": "string", "shell": "string", "login": "boolean", "tty": "boolean",
		"yield_time_ms": "number", "max_output_tokens": "number", "sandbox_permissions": "string", "justification": "string",
		"prefix_rule": "array", "additional_permissions": "object", "view": "string", "until": "" /* a word or an object */}
	if got := types(in); !maps.Equal(got, want) {
		t.Errorf("arguments: %v", got)
	}
	if !slices.Equal(in.Required, []string{"cmd"}) || in.AdditionalProperties == nil || *in.AdditionalProperties {
		t.Errorf("required %v, additional properties %v", in.Required, in.AdditionalProperties)
	}
	if got := types(out); !maps.Equal(got, outcome) || !slices.Equal(out.Required, []string{"wall_time_seconds", "state", "output"}) || *out.AdditionalProperties {
		t.Errorf("output: %v, %v", got, out.Required)
	}
	if !slices.Equal(in.Properties["sandbox_permissions"].Enum, []string{"use_default", "require_escalated", "with_additional_permissions"}) {
		t.Error(in.Properties["sandbox_permissions"].Enum)
	}
	expect.Contains(t, tool.Description, "64 processes", "1048576 bytes")
	expect.Contains(t, in.Properties["yield_time_ms"].Description, "10000", "250", "30000")
	expect.Contains(t, in.Properties["max_output_tokens"].Description, "10000", "4 bytes")
}

func TestSchemaLeavesOutWhatTheSessionDoesNotAllow(t *testing.T) {
	_, in, _ := describe(t, tools.Options{HideShell: true, Session: execbus.SessionOptions{NoLoginShell: true}}, "exec_command")
	for _, name := range []string{"shell", "login"} {
		if _, there := in.Properties[name]; there {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestSchemaOfWriteStdin(t *testing.T) {
	_, in, out := describe(t, tools.Options{}, "write_stdin")
	want := map[string]string{"session_id": "number", "chars": "string", "yield_time_ms": "number", "max_output_tokens": "number", "no_timeout": "boolean", "view": "string", "until": ""}
	if got := types(in); !maps.Equal(got, want) || !slices.Equal(in.Required, []string{"session_id"}) || *in.AdditionalProperties {
		t.Errorf("arguments: %v, required %v", got, in.Required)
	}
	if got := types(out); !maps.Equal(got, outcome) {
		t.Errorf("output: %v", got)
	}
	expect.Contains(t, in.Properties["yield_time_ms"].Description, "250", "30000", "5000", "300000")
}

func TestDescriptionsStateTheLimitsOfTheSession(t *testing.T) {
	options := tools.Options{Session: execbus.SessionOptions{MaxProcesses: 7, OutputTokens: 123, LongestPoll: time.Minute}}
	tool, in, _ := describe(t, options, "exec_command")
	expect.Contains(t, tool.Description, "7 processes")
	expect.Contains(t, in.Properties["max_output_tokens"].Description, "123")
	_, in, _ = describe(t, options, "write_stdin")
	expect.Contains(t, in.Properties["yield_time_ms"].Description, "60000")
}

func TestEveryToolAndArgumentIsDescribed(t *testing.T) {
	var names []string
	for _, tool := range tools.List(tools.Options{}) {
		names = append(names, tool.Name)
		_, in, _ := describe(t, tools.Options{}, tool.Name)
		if tool.Title == "" || !strings.HasSuffix(tool.Description, ".") || *in.AdditionalProperties {
			t.Errorf("%s: %q, %q", tool.Name, tool.Title, tool.Description)
		}
		for name, property := range in.Properties {
			if !strings.HasSuffix(property.Description, ".") {
				t.Errorf("%s, %s: %q", tool.Name, name, property.Description)
			}
		}
	}
	want := []string{"exec_command", "write_stdin", "apply_patch", "read_output", "list_processes", "wait_processes", "terminate_process", "send_signal", "resize"}
	if !slices.Equal(names, want) {
		t.Error(names)
	}
}

// The codes are read from their source, so that a new one is noticed.
func TestEveryErrorCodeHasASentenceForTheModel(t *testing.T) {
	source, err := parser.ParseFile(token.NewFileSet(), "../messages/error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(source, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		code, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		advice := tools.Advice(code)
		if !strings.HasSuffix(advice, ".") || len(advice) > 120 {
			t.Errorf("%s: %q", code, advice)
		}
		return true
	})
	if found < 20 {
		t.Errorf("only %d codes were found", found)
	}
}

// The description of exec_command states the sandbox, and how to get more.
func TestTheDescriptionStatesTheSandbox(t *testing.T) {
	for _, c := range []struct {
		options tools.Options
		want    string
	}{
		{tools.Options{}, " Commands run without a sandbox. At most"},
		{tools.Options{Session: execbus.SessionOptions{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}}}, " Commands run without a sandbox. At most"},
		{tools.Options{Session: execbus.SessionOptions{Sandbox: &messages.SandboxPolicy{}}}, " Commands run in a sandbox: read-only, no network. Ask for more with sandbox_permissions. At most"},
		{tools.Options{Session: execbus.SessionOptions{Dir: "/w", Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, NetworkAccess: true}}, SandboxSettings: "--box"},
			" Commands run in a sandbox: workspace-write, network; its workspace is /w. Ask for more with sandbox_permissions, or tell the user to change the server's settings --box. At most"},
		{tools.Options{Session: execbus.SessionOptions{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}}}, "its workspace is the session's directory. "},
	} {
		tool, _, _ := describe(t, c.options, "exec_command")
		expect.Contains(t, tool.Description, c.want)
	}
}
