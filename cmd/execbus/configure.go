package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/execbus/execbus/messages"
)

// said holds the values that one source gives for one setting.
type said struct {
	setting
	values []string
	where  string // names the place of the setting in an error
	dir    string // the directory to which relative paths are relative
	here   bool   // it is the working directory
}

// configure reads the settings of a command from the flags, the environment and the file. A flag replaces a variable, and a variable
// replaces a line of the file. more registers flags that are no settings. done reports that there is nothing more to do.
func configure(command, usage string, c *config, args []string, std streams, more ...func(*flag.FlagSet)) (rest []string, code int, done bool) {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	dir, err := syscall.Getwd() // os.Getwd trusts PWD
	if err != nil {
		return nil, failed(std, err), true
	}
	file := flags.String(configFlag, "", "")
	fromFlags := register(flags, of(command), dir)
	for _, register := range more {
		register(flags)
	}
	if code, done := parse(flags, args, usage, std); done {
		return nil, code, true
	}
	nameUnknown(os.Environ(), std)
	fromFile, err := readConfig(*file, isSet(flags, configFlag))
	if err == nil {
		err = errors.Join(c.apply(command, fromFile), c.apply(command, fromEnvironment(dir)))
	}
	if err != nil {
		fmt.Fprintln(std.err, "execbus:", err)
		return nil, exitMisused, true
	}
	if err := c.apply(command, *fromFlags); err != nil {
		return nil, misused(std, err.Error(), usage), true
	}
	if c.asks && (command == "serve" || command == "policy") {
		return nil, misused(std, command+" can ask nobody about hosts; set network to true or false for it", usage), true
	}
	c.sandbox.NetworkAccess = c.sandbox.NetworkAccess || c.network
	if len(c.hosts) > 0 || c.asks {
		network := messages.NetworkPolicy{}
		if c.sandbox.Network != nil {
			network = *c.sandbox.Network
		}
		network.Hosts = append(slices.Clip(network.Hosts), c.hosts...)
		if c.asks {
			network.Default = messages.HostsAsked
		}
		c.sandbox.Network = &network
	}
	c.sandbox.WritableRoots = append(slices.Clip(c.sandbox.WritableRoots), c.writable...)
	return flags.Args(), 0, false
}

// register adds flags to a set. Parsing the set fills the list.
func register(flags *flag.FlagSet, all []setting, dir string) *[]said {
	var list []said
	for _, s := range all {
		note := func(value string) error {
			i := slices.IndexFunc(list, func(other said) bool { return other.name == s.name })
			if i < 0 {
				i, list = len(list), append(list, said{setting: s, where: "--" + s.name, dir: dir, here: true})
			}
			list[i].values = append(list[i].values, value)
			return nil
		}
		if s.short != "" {
			flags.Func(s.short, "", note)
		}
		if s.value != "" {
			flags.Func(s.name, "", note)
			continue
		}
		flags.BoolFunc(s.name, "", note)
		if s.negated {
			flags.BoolFunc("no-"+s.name, "", func(value string) error {
				on, err := truth(value)
				return errors.Join(err, note(fmt.Sprint(!on)))
			})
		}
	}
	return &list
}

func isSet(flags *flag.FlagSet, name string) (is bool) {
	flags.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// fromEnvironment returns the settings of the environment. An empty variable does not count.
func fromEnvironment(dir string) []said {
	var list []said
	for _, s := range settings {
		value := os.Getenv(s.variable())
		if value == "" || s.once {
			continue
		}
		values := []string{value}
		if s.several {
			values = filepath.SplitList(value)
			if s.spaced {
				values = strings.Fields(value)
			}
		}
		list = append(list, said{s, values, s.variable(), dir, true})
	}
	return list
}

// nameUnknown names variables that look like settings and are none: one that is misspelled may have been meant to forbid something.
func nameUnknown(environment []string, std streams) {
	const ofSandbox = "EXECBUS_SANDBOX_NETWORK_DISABLED" // execbus itself runs in a sandbox of execbus
	names := []string{configVariable}
	for _, s := range settings {
		if !s.once {
			names = append(names, s.variable())
		}
	}
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "EXECBUS_") && name != ofSandbox && !slices.Contains(names, name) {
			fmt.Fprintf(std.err, "execbus: the environment variable %q is no setting, and is ignored%s\n", name, didYouMean(name, "", names))
		}
	}
}

// apply applies the settings of a source that belong to a command. It ignores the settings of other commands.
func (c *config) apply(command string, list []said) error {
	for _, s := range list {
		if !slices.Contains(strings.Fields(s.commands), command) {
			continue
		}
		values, err := s.absolute(s.values, s.dir)
		c.here = c.here || s.workspace && s.here && slices.ContainsFunc(s.values, func(path string) bool { return !filepath.IsAbs(path) })
		if err == nil {
			err = s.set(c, values)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.where, err)
		}
	}
	return nil
}

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

// takes says what a switch can be.
func (s setting) takes() string {
	if s.also != "" {
		return fmt.Sprintf("true, false or %q", s.also)
	}
	return "true or false"
}

// values reads the value of a setting.
func (s setting) values(node *unstable.Node) (about *unstable.Node, values []string, err error) {
	switch {
	case s.value == "":
		if node.Kind != unstable.Bool && (s.also == "" || node.Kind != unstable.String || string(node.Data) != s.also) {
			return node, nil, fmt.Errorf("%s must be %s, and is %s", s.key(), s.takes(), kinds[node.Kind])
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
