package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// arguments are the values of a call's arguments by name. An argument that is left out or null is not among them.
type arguments struct {
	values map[string]any
	notes  []string // for the model: the arguments that were ignored
}

// maxWhole is the largest whole number that JSON carries without loss. Larger numbers are reduced to it.
const maxWhole = 1 << 53

// longest is the longest duration that an argument can give. Every wait is shorter than that.
const longest = 1000 * time.Hour

// parse reads the arguments of a tool. A repeated name, a wrong type and a missing argument are errors that name the argument. An
// unknown one is ignored, because models often add an argument that another tool of theirs has.
func parse(tool string, parameters []parameter, raw json.RawMessage) (parsed arguments, err error) {
	if said := bytes.TrimSpace(raw); len(said) == 0 || string(said) == "null" {
		raw = json.RawMessage("{}")
	}
	said, err := members(tool, raw)
	if err != nil {
		return parsed, err
	}
	parsed.values = map[string]any{}
	var unknown []string
	for _, m := range said {
		i := slices.IndexFunc(parameters, func(p parameter) bool { return p.name == m.name })
		if i < 0 {
			unknown = append(unknown, fmt.Sprintf("%.60q", m.name))
			continue
		}
		if _, twice := parsed.values[m.name]; twice {
			return parsed, wrong(tool, m.name, "it is given twice; give it once")
		}
		value, why := parameters[i].read(m.value)
		if why != "" {
			return parsed, wrong(tool, m.name, why)
		}
		parsed.values[m.name] = value
	}
	why := ""
	if len(unknown) > 0 {
		why = fmt.Sprintf("there is no argument %s; there are %s", strings.Join(unknown[:min(len(unknown), mostNamed)], ", "), names(parameters))
		parsed.notes = []string{"Ignored: " + why}
	}
	for _, p := range parameters {
		switch value := parsed.values[p.name]; {
		case value == nil && p.required && why != "":
			return parsed, wrong(tool, p.name, "it is missing; provide it. And "+why)
		case value == nil && p.required:
			return parsed, wrong(tool, p.name, "it is missing; provide it")
		case value == nil:
			delete(parsed.values, p.name)
		}
	}
	return parsed, nil
}

// mostNamed bounds how many ignored arguments a note names.
const mostNamed = 8

// wrong is the error of an argument.
func wrong(tool, argument, why string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: tool, Subject: argument, Detail: why}
}

func names(parameters []parameter) string {
	var all []string
	for _, p := range offered(parameters) {
		all = append(all, p.name)
	}
	return strings.Join(all, ", ")
}

// member is one name of an object with its value.
type member struct {
	name  string
	value json.RawMessage
}

// members reads an object and keeps repeated names.
func members(tool string, raw json.RawMessage) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	open, err := decoder.Token()
	if err != nil {
		return nil, wrong(tool, "arguments", "they are not JSON; send an object: "+err.Error())
	}
	if open != json.Delim('{') {
		return nil, wrong(tool, "arguments", "they are not an object; send one with the arguments by their names")
	}
	var all []member
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, wrong(tool, "arguments", "they are not JSON; send an object: "+err.Error())
		}
		m := member{name: name.(string)}
		if err := decoder.Decode(&m.value); err != nil {
			return nil, wrong(tool, m.name, "it is not JSON; send a value: "+err.Error())
		}
		all = append(all, m)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, wrong(tool, "arguments", "they are not JSON; send an object: "+err.Error())
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, wrong(tool, "arguments", "something follows the object; send one object")
	}
	return all, nil
}

// read turns JSON into the parameter's value, or says why it cannot. Null becomes nil.
func (p parameter) read(raw json.RawMessage) (value any, why string) {
	if string(raw) == "null" {
		return nil, ""
	}
	switch p.kind {
	case text:
		said, why := as[string](raw, "a string")
		if why == "" && len(p.choices) > 0 && !slices.Contains(p.choices, said) {
			why = fmt.Sprintf("%.60q is none of its values, which are %s", said, strings.Join(p.choices, ", "))
		}
		return said, why
	case flag:
		return as[bool](raw, "true or false")
	case texts:
		return as[[]string](raw, "a list of strings")
	case permissions:
		return readPermissions(raw)
	case condition:
		return readUntil(raw)
	case waits:
		return readWaits(raw)
	}
	n, why := as[float64](raw, "a number")
	switch {
	case why != "":
		return nil, why
	case n < 0:
		return nil, "it is negative; use zero or more"
	case p.kind == milliseconds:
		return millis(n), ""
	case n != math.Trunc(n):
		return nil, "it is not a whole number"
	}
	return int(min(n, maxWhole)), ""
}

// as decodes a value of exactly one type.
func as[T any](raw json.RawMessage, what string) (value T, why string) {
	if json.Unmarshal(raw, &value) != nil {
		return value, fmt.Sprintf("it must be %s, and is %s", what, typeOf(raw))
	}
	return value, ""
}

// typeOf names the type of an unexpected JSON value.
func typeOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list of something else"
	case 't', 'f':
		return "true or false"
	default:
		return "a number that is too large or of another kind"
	}
}

func readPermissions(raw json.RawMessage) (any, string) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	asked := &messages.AdditionalPermissions{}
	if err := decoder.Decode(asked); err != nil {
		return nil, strings.TrimPrefix(err.Error(), "json: ")
	}
	return asked, ""
}

func (a arguments) text(name string) string { value, _ := a.values[name].(string); return value }

func (a arguments) flag(name string) bool { value, _ := a.values[name].(bool); return value }

func (a arguments) texts(name string) []string { value, _ := a.values[name].([]string); return value }

func (a arguments) has(name string) bool { _, said := a.values[name]; return said }

func (a arguments) number(name string) int { value, _ := a.values[name].(int); return value }

// process is the process that a call is about.
func (a arguments) process() messages.ProcessID { return messages.ProcessID(a.number(sessionID.name)) }

// optional is an argument for a field in which nil means that the argument was left out.
func optional[T any](a arguments, name string) *T {
	if value, said := a.values[name].(T); said {
		return &value
	}
	return nil
}

// kind is the type of a parameter's value.
type kind string

const (
	text         kind = "text"
	flag         kind = "flag"
	whole        kind = "whole number"
	milliseconds kind = "milliseconds"
	texts        kind = "texts"
	permissions  kind = "permissions" // messages.AdditionalPermissions
	condition    kind = "condition"   // messages.Until
	waits        kind = "waits"       // []messages.WaitFor
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
	case condition:
		s["anyOf"] = untilSchemas()
	case waits:
		s["type"], s["items"] = "array", waitSchema()
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
