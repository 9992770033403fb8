package ptyio

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// Overrides returns the variables that every command gets unless its policy sets them. They turn off colours and pagers,
// which are of no use without a person at the terminal; they fix the encoding; and they tell a program that it runs under
// execbus. The caller owns the map. messages.EnvironmentPolicy also lists the variables.
func Overrides() map[string]string {
	return map[string]string{
		"NO_COLOR":  "1",
		"TERM":      "dumb",
		"LANG":      "C.UTF-8",
		"LC_CTYPE":  "C.UTF-8",
		"LC_ALL":    "C.UTF-8",
		"COLORTERM": "",
		"PAGER":     "cat",
		"GIT_PAGER": "cat",
		"GH_PAGER":  "cat",
		"EXECBUS":   "1",
	}
}

// PagersOff returns the overrides for a session whose environment is otherwise exactly what its policy sets. Without them,
// commands that only display something would start a pager on a terminal. The caller owns the map.
func PagersOff() map[string]string {
	off := Overrides()
	maps.DeleteFunc(off, func(name, _ string) bool { return !strings.HasSuffix(name, "PAGER") })
	return off
}

// coreNames are the variables that InheritCore keeps.
var coreNames = []string{"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"}

// secretNames match the variables that DropSecrets removes.
var secretNames = []string{"*KEY*", "*SECRET*", "*TOKEN*"}

// BuildEnvironment makes a child's environment, "NAME=value" sorted by name, from base, the host's environment in the form
// of os.Environ. It inherits, drops secrets, excludes, sets, keeps what IncludeOnly names, and adds the overrides, in this
// order. An override replaces an inherited variable but not one that the policy sets. Callers pass Overrides() or their own.
//
// Policies match names without regard to case, but setting PATH does not replace a variable called Path. If a name appears
// twice in base, the last entry counts. Entries of base without a name are left out. BuildEnvironment returns a
// *messages.Error of messages.ErrInvalidRequest for an unknown Inherit, and for a variable that no kernel would accept: its
// name is empty or contains '=', or its name or value contains a NUL byte. The error names the variable.
func BuildEnvironment(base []string, policy messages.EnvironmentPolicy, overrides map[string]string) ([]string, error) {
	env, err := inherited(base, policy)
	if err != nil {
		return nil, err
	}
	maps.Copy(env, policy.Set)
	if len(policy.IncludeOnly) > 0 {
		keep := patterns(policy.IncludeOnly)
		maps.DeleteFunc(env, func(name, _ string) bool { return !keep(name) })
	}
	for name, value := range overrides {
		if _, set := policy.Set[name]; !set || env[name] != policy.Set[name] { // IncludeOnly may have taken it away
			env[name] = value
		}
	}

	entries := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if err := checkVariable(name, env[name]); err != nil {
			return nil, err
		}
		entries = append(entries, name+"="+env[name])
	}
	return entries, nil
}

// inherited is the part of base that the policy lets through.
func inherited(base []string, policy messages.EnvironmentPolicy) (map[string]string, error) {
	env := make(map[string]string, len(base))
	switch policy.Inherit {
	case messages.InheritNone:
		return env, nil
	case messages.InheritAll, messages.InheritCore, "":
	default:
		return nil, &messages.Error{
			Code: messages.ErrInvalidRequest, Op: "build environment", Subject: "inherit",
			Detail: fmt.Sprintf("%q is not a way to inherit; use %q, %q or %q", policy.Inherit, messages.InheritAll, messages.InheritCore, messages.InheritNone),
		}
	}
	exclude := slices.Clone(policy.Exclude)
	if policy.DropSecrets {
		exclude = append(exclude, secretNames...)
	}
	excluded := patterns(exclude)
	for _, entry := range base {
		name, value, found := strings.Cut(entry, "=")
		if !found || name == "" ||
			policy.Inherit == messages.InheritCore && !slices.ContainsFunc(coreNames, func(core string) bool { return strings.EqualFold(core, name) }) ||
			excluded(name) {
			continue
		}
		env[name] = value
	}
	return env, nil
}

func checkVariable(name, value string) error {
	var detail string
	switch {
	case name == "":
		detail = "a variable has no name"
	case strings.Contains(name, "="):
		detail = "the name contains '='"
	case strings.Contains(name, "\x00"), strings.Contains(value, "\x00"):
		detail = "the variable contains a NUL byte"
	default:
		return nil
	}
	return &messages.Error{
		Code: messages.ErrInvalidRequest, Op: "build environment", Subject: fmt.Sprintf("%q", name),
		Detail: detail + "; remove the variable or exclude it",
	}
}

// patterns reports whether a name matches one of these globs, without regard to case. * matches any number of characters, ? matches one,
// and any other character matches itself.
func patterns(globs []string) (match func(name string) bool) {
	if len(globs) == 0 {
		return func(string) bool { return false }
	}
	alternatives := make([]string, len(globs))
	for i, glob := range globs {
		alternatives[i] = wildcards.Replace(regexp.QuoteMeta(strings.ToValidUTF8(glob, "\ufffd")))
	}
	return regexp.MustCompile("(?is)^(?:" + strings.Join(alternatives, "|") + ")$").MatchString
}

var wildcards = strings.NewReplacer(`\*`, ".*", `\?`, ".")
