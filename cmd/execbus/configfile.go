package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A flag or an environment variable names the file.
const (
	configFlag     = "config"
	configVariable = "EXECBUS_CONFIG"
)

// readConfig reads the file. A file that a flag or the variable names must exist; the default file need not. An empty name means no
// file.
func readConfig(name string, named bool) ([]said, error) {
	if !named {
		name, named = os.LookupEnv(configVariable)
	}
	if named && name == "" {
		return nil, nil
	}
	if !named {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil, nil // a user without a directory has no file
		}
		name = filepath.Join(dir, "execbus", "config.toml")
	}
	text, err := os.ReadFile(name)
	if !named && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	return readTOML(full, text)
}

// readTOML reads the text of a file.
func readTOML(name string, text []byte) ([]said, error) {
	var whole map[string]any // decoding the whole finds text that is not TOML
	if err := toml.Unmarshal(text, &whole); err != nil {
		if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := wrong.Position()
			return nil, fmt.Errorf("%s:%d:%d: %w", name, line, column, wrong)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var list []said
	p := unstable.Parser{}
	p.Reset(text)
	for p.NextExpression() {
		s, about, err := readSetting(p.Expression())
		start := p.Shape(about.Raw).Start
		where := fmt.Sprintf("%s:%d:%d", name, start.Line, start.Column)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		s.where, s.dir = where+": "+s.key(), filepath.Dir(name)
		list = append(list, s)
	}
	return list, p.Error()
}

// readSetting reads one expression. It returns the value, or an error and the node that the error is about.
func readSetting(expression *unstable.Node) (said, *unstable.Node, error) {
	keys := expression.Key()
	keys.Next()
	first := keys.Node()
	if expression.Kind != unstable.KeyValue || keys.Next() {
		return said{}, first, errors.New("settings cannot be in a table; write each as a line NAME = VALUE, without brackets and dots")
	}
	var names []string
	for _, s := range settings {
		if names = append(names, s.key()); s.key() != string(first.Data) || s.once {
			continue
		}
		about, values, err := s.values(expression.Value())
		if about.Raw.Length == 0 { // the parser does not say where a list is
			about = first
		}
		return said{setting: s, values: values}, about, err
	}
	return said{}, first, fmt.Errorf("there is no setting %q%s", first.Data, didYouMean(string(first.Data), "", names))
}

// values reads the value of a setting.
func (s setting) values(node *unstable.Node) (about *unstable.Node, values []string, err error) {
	switch {
	case s.value == "":
		if node.Kind != unstable.Bool {
			return node, nil, fmt.Errorf("%s must be true or false, and is %s", s.key(), kinds[node.Kind])
		}
		return node, []string{string(node.Data)}, nil
	case !s.several:
		if node.Kind != unstable.String {
			return node, nil, fmt.Errorf("%s must be a string, and is %s", s.key(), kinds[node.Kind])
		}
		return node, []string{string(node.Data)}, nil
	case node.Kind != unstable.Array:
		return node, nil, fmt.Errorf("%s must be a list of strings, and is %s", s.key(), kinds[node.Kind])
	}
	for elements := node.Children(); elements.Next(); {
		element := elements.Node()
		if element.Kind != unstable.String {
			return element, nil, fmt.Errorf("%s must be a list of strings, and has %s in it", s.key(), kinds[element.Kind])
		}
		values = append(values, string(element.Data))
	}
	return node, values, nil
}

// kinds are the types of values, for a person.
var kinds = map[unstable.Kind]string{
	unstable.String: "a string", unstable.Bool: "true or false", unstable.Integer: "a number", unstable.Float: "a number",
	unstable.Array: "a list", unstable.InlineTable: "a table", unstable.LocalDate: "a date", unstable.LocalTime: "a time",
	unstable.LocalDateTime: "a date", unstable.DateTime: "a date",
}
