package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/command"
	"github.com/execbus/execbus/policy/rules"
)

// amendment is the prefix that an approval could turn into an allow rule. It is nil if none should be offered: if rules
// would not hold for the command, if one matches already, or if the prefix would allow far more than this command: anything, or what
// a confined command can replace.
func (m *maker) amendment(plan Plan) []string {
	permissions := m.request.SandboxPermissions == messages.PermissionsWithAdditional
	if m.altered || permissions || m.understood.Complex || len(m.request.Argv) == 0 || plan.Unread != "" {
		return nil
	}
	if m.covers(m.request.PrefixRule) {
		return slices.Clone(m.request.PrefixRule)
	}
	wanted := fine
	if plan.Decision == Ask {
		wanted = ask
	}
	var proposal []string
	for i := range m.segments {
		s := &m.segments[i]
		if s.idle {
			continue
		}
		if s.rule != nil && s.verdict == ask || s.matched && plan.Decision == Run {
			return nil
		}
		if proposal == nil && !s.matched && s.verdict == wanted && !m.commands[i].nowhere {
			proposal = m.commands[i].words
		}
	}
	if command.RunsAnything(proposal) || m.loose(proposal) || rules.CheckPrefix(proposal) != nil {
		return nil
	}
	return slices.Clone(proposal)
}

// covers reports whether a prefix that the caller suggests can be offered: no rule matches yet, and the prefix would allow
// the whole command.
func (m *maker) covers(prefix []string) bool {
	if len(prefix) == 0 || command.RunsAnything(prefix) || m.loose(prefix) {
		return false
	}
	if slices.ContainsFunc(m.segments, func(s segment) bool { return s.matched }) {
		return false
	}
	with, err := m.rules.With(prefix)
	if err != nil {
		return false
	}
	for i, c := range m.commands {
		if !m.segments[i].idle && (m.loose(c.words) || !slices.ContainsFunc(with.Match(c.words), allows)) {
			return false
		}
	}
	return true
}

// loose reports whether a command runs what another command can replace, or is told what to do by a whole script. A rule looks at
// the words, and would allow whatever is there later.
func (m *maker) loose(words []string) bool {
	if len(words) == 0 {
		return false
	}
	program, file, code := command.Started(words)
	if code || file != "" && m.open(file) {
		return true
	}
	return slices.ContainsFunc([]string{words[0], program}, func(path string) bool { return strings.Contains(path, "/") && m.open(path) })
}

// open reports whether a path lies where commands may write.
func (m *maker) open(path string) bool {
	if !filepath.IsAbs(path) {
		path = m.request.Dir + "/" + path
	}
	return slices.ContainsFunc(m.openDirs(), func(root string) bool { return root != "" && inside(tidy(path), tidy(root)) })
}
