package rules

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/command"
)

// Decision is a rule's verdict on the commands that match it.
type Decision string

// The decisions of rules, from the weakest to the strictest.
const (
	Allow     Decision = "allow"
	Prompt    Decision = "prompt"
	Forbidden Decision = "forbidden"
)

func (d Decision) strictness() int {
	return slices.Index([]Decision{Allow, Prompt, Forbidden}, d)
}

// Match is a rule that a command matches.
type Match struct {
	Prefix        []string // the words that matched
	Decision      Decision
	Program       string // the path that was taken for its base name; empty if the first word matched as it is
	Justification string
	Place         string // file and line of the rule; empty for a rule that no file has
}

// Strictest is the match that decides: the longest of the strictest ones, and the first of those that are equally long. It
// reports false if there are no matches.
func Strictest(matches []Match) (Match, bool) {
	if len(matches) == 0 {
		return Match{}, false
	}
	best := matches[0]
	for _, m := range matches[1:] {
		stricter := m.Decision.strictness() - best.Decision.strictness()
		if stricter > 0 || stricter == 0 && len(m.Prefix) > len(best.Prefix) {
			best = m
		}
	}
	return best, true
}

// Set is a set of rules from rule files. It is never changed; With makes a new one. A nil *Set has no rules.
type Set struct {
	byFirst     map[string][]*rule  // by the first word of the pattern, in the order of their files
	executables map[string][]string // the paths that may stand for a name
	network     []messages.HostRule
}

// rule is one pattern that begins with one word.
type rule struct {
	first         string
	rest          [][]string // alternatives for each further word
	decision      Decision
	justification string
	place         string
}

func (r *rule) matches(arguments []string) bool {
	if len(arguments) < len(r.rest) {
		return false
	}
	for i, alternatives := range r.rest {
		if !slices.Contains(alternatives, arguments[i]) {
			return false
		}
	}
	return true
}

func (r *rule) match(command []string, program string) Match {
	prefix := append([]string{r.first}, command[1:1+len(r.rest)]...)
	return Match{Prefix: prefix, Decision: r.decision, Program: program, Justification: r.justification, Place: r.place}
}

// Match finds every rule that a command matches.
//
// A command that is named by a path is also tried under its base name. Strict rules for that name hold more often than
// allow rules:
//   - a forbidden rule for the name counts for every path;
//   - a prompt rule too, unless a rule matches the path as it is written;
//   - an allow rule counts, unless a rule matches the path as it is written, for the paths that a host_executable lists,
//     or, if there is none for the name, for paths directly in the system's own directories.
func (r *Set) Match(command []string) []Match {
	if r == nil || len(command) == 0 {
		return nil
	}
	var matches []Match
	for _, rule := range r.byFirst[command[0]] {
		if rule.matches(command[1:]) {
			matches = append(matches, rule.match(command, ""))
		}
	}
	if !strings.Contains(command[0], "/") {
		return matches
	}
	exact, name := len(matches) > 0, filepath.Base(command[0])
	for _, rule := range r.byFirst[name] {
		counts := rule.decision == Forbidden || !exact && (rule.decision == Prompt || r.standsFor(command[0], name))
		if counts && rule.matches(command[1:]) {
			matches = append(matches, rule.match(command, command[0]))
		}
	}
	return matches
}

// standsFor reports whether an allow rule for the base name also holds for a path. It does not for a path that is not
// clean: with ".." a system directory leads anywhere.
func (r *Set) standsFor(path, name string) bool {
	if paths, listed := r.executables[name]; listed {
		return slices.Contains(paths, path)
	}
	return command.InSystemDir(path)
}

// StrictNames are the base names of the programs about which a rule forbids or asks, sorted.
func (r *Set) StrictNames() (names []string) {
	if r == nil {
		return nil
	}
	for first, list := range r.byFirst {
		if slices.ContainsFunc(list, func(r *rule) bool { return r.decision != Allow }) {
			names = append(names, filepath.Base(first))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Strict reports whether one of the rules forbids or asks.
func (r *Set) Strict() bool {
	if r == nil {
		return false
	}
	for _, list := range r.byFirst {
		if slices.ContainsFunc(list, func(r *rule) bool { return r.decision != Allow }) {
			return true
		}
	}
	return false
}

// With returns a set of these rules and one more, which allows commands that begin with the prefix.
func (r *Set) With(prefix []string) (*Set, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, err
	}
	added := &rule{first: prefix[0], decision: Allow}
	for _, word := range prefix[1:] {
		added.rest = append(added.rest, []string{word})
	}
	if r == nil {
		r = &Set{}
	}
	more := &Set{byFirst: maps.Clone(r.byFirst), executables: r.executables, network: r.network}
	if others := r.byFirst[added.first]; others != nil {
		more.byFirst[added.first] = slices.Clip(others) // so that append copies it
	}
	more.add(added)
	return more, nil
}

// add must only be called before the set is shared.
func (r *Set) add(added *rule) {
	if r.byFirst == nil {
		r.byFirst = map[string][]*rule{}
	}
	r.byFirst[added.first] = append(r.byFirst[added.first], added)
}

// merge adds the rules of a later file, whose host_executables replace earlier ones of the same name.
func (r *Set) merge(later *Set) {
	for _, first := range slices.Sorted(maps.Keys(later.byFirst)) {
		for _, rule := range later.byFirst[first] {
			r.add(rule)
		}
	}
	if r.executables == nil {
		r.executables = map[string][]string{}
	}
	maps.Copy(r.executables, later.executables)
	r.network = append(r.network, later.network...)
}

// CheckPrefix reports why a prefix cannot become a rule.
func CheckPrefix(prefix []string) error {
	wrong := func(detail string) error {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "amend", Subject: "rules", Detail: detail}
	}
	if len(prefix) == 0 {
		return wrong("an empty prefix would allow every command; name at least one word")
	}
	for _, word := range prefix {
		if !plainText(word) {
			return wrong("a word of the prefix is not UTF-8 text, which a rule file cannot contain; leave it out")
		}
	}
	return nil
}
