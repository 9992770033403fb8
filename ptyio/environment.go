package ptyio

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

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
var coreNames = patterns([]string{
	"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER",
})

// secretNames match the variables that DropSecrets removes.
var secretNames = patterns([]string{"*KEY*", "*SECRET*", "*TOKEN*"})

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
		maps.DeleteFunc(env, func(name, _ string) bool { return !keep.match(name) })
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
	exclude := patterns(policy.Exclude)
	for _, entry := range base {
		name, value, found := strings.Cut(entry, "=")
		if !found || name == "" ||
			policy.Inherit == messages.InheritCore && !coreNames.match(name) ||
			policy.DropSecrets && secretNames.match(name) ||
			exclude.match(name) {
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

// patternList holds globs, case-folded so that comparisons ignore case.
type patternList [][]rune

func patterns(globs []string) patternList {
	list := make(patternList, len(globs))
	for i, glob := range globs {
		list[i] = fold(glob)
	}
	return list
}

func (l patternList) match(name string) bool {
	if len(l) == 0 {
		return false
	}
	folded := fold(name)
	return slices.ContainsFunc(l, func(glob []rune) bool { return globMatches(glob, folded) })
}

// fold maps letters that differ only in case to the same letter. It converts to upper case first, because some lower-case
// letters, such as the long s, have only their upper case in common with their equivalents.
func fold(s string) []rune {
	runes := []rune(s)
	for i, r := range runes {
		runes[i] = unicode.ToLower(unicode.ToUpper(r))
	}
	return runes
}

// globMatches reports whether glob matches the whole name. * matches any number of characters, ? matches one, and any other
// character matches itself. It backtracks only to the last *, so it takes at most len(glob) × len(name) steps.
func globMatches(glob, name []rune) bool {
	g, n := 0, 0
	star, resume := -1, 0 // the last *, and the place in name where the text after it is tried next
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, resume = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g++
			n++
		case star >= 0:
			resume++
			g, n = star+1, resume
		default:
			return false
		}
	}
	for g < len(glob) && glob[g] == '*' {
		g++
	}
	return g == len(glob)
}
