package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	c.sandbox.NetworkAccess = c.sandbox.NetworkAccess || c.network
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
