package tools

// kind is the type of a parameter's value.
type kind string

const (
	text         kind = "text"
	flag         kind = "flag"
	whole        kind = "whole number"
	milliseconds kind = "milliseconds"
	texts        kind = "texts"
	permissions  kind = "permissions" // messages.AdditionalPermissions
)

// parameter is one argument of a tool. Its schema and its parser are made from it.
type parameter struct {
	name     string
	kind     kind
	required bool
	about    string
	choices  []string // of a text; none: any
	hidden   bool     // accepted, but not in the schema
}

// sessionID names the process in every tool that is about one.
var sessionID = parameter{name: "session_id", kind: whole, required: true, about: "The process, by the number that exec_command gave."}

// schema is the parameter's JSON schema.
func (p parameter) schema() map[string]any {
	s := map[string]any{"description": p.about}
	switch p.kind {
	case text:
		s["type"] = "string"
	case flag:
		s["type"] = "boolean"
	case whole, milliseconds:
		s["type"] = "number"
	case texts:
		s["type"], s["items"] = "array", map[string]any{"type": "string"}
	case permissions:
		paths := map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
		s["type"], s["additionalProperties"] = "object", false
		s["properties"] = map[string]any{
			"network":     closed(map[string]any{"enabled": map[string]any{"type": "boolean"}}),
			"file_system": closed(map[string]any{"read": paths, "write": paths}),
		}
	}
	if len(p.choices) > 0 {
		s["enum"] = p.choices
	}
	return s
}

// closed is the schema of an object that has these properties and no others.
func closed(properties map[string]any, required ...string) map[string]any {
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
