package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/command"
)

// exact is a text that JSON encodes without loss. Otherwise all bytes that are not UTF-8 would become the same character,
// and different commands would have one key.
type exact string

// MarshalJSON implements json.Marshaler.
func (e exact) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(e)) {
		return json.Marshal(string(e))
	}
	return json.Marshal(struct {
		Bytes []byte `json:"bytes"`
	}{[]byte(e)})
}

// texts are strings that JSON encodes without loss. Nearly always they are valid UTF-8 and need no encoding of ours,
// which is much faster.
func texts(all []string) any {
	if len(all) == 0 || !slices.ContainsFunc(all, func(text string) bool { return !utf8.ValidString(text) }) {
		return all
	}
	var result []exact
	for _, text := range all {
		result = append(result, exact(text))
	}
	return result
}

// approved is what one approval for the session covers. Two commands may differ in anything else: the size of a terminal,
// yield time, output limits, justification.
type approved struct {
	Command     any                         `json:"command"`
	Argv0       exact                       `json:"argv0,omitempty"`
	Dir         exact                       `json:"dir"`
	Places      any                         `json:"places,omitempty"` // names of a script that lead outside of the system's directories, and where
	OpenInput   bool                        `json:"open_input,omitempty"`
	Environment *environment                `json:"environment,omitempty"`
	Permissions messages.SandboxPermissions `json:"sandbox_permissions,omitempty"`
	Network     bool                        `json:"network,omitempty"`
	Read        any                         `json:"read,omitempty"`
	Write       any                         `json:"write,omitempty"`
	// Attempt and the fields below it are what the person was told would happen: an approval for a confined attempt
	// covers neither one without a sandbox nor one in a wider sandbox.
	Attempt  Attempt                 `json:"attempt"`
	OnDenial OnDenial                `json:"on_denial"`
	Sandbox  *messages.SandboxPolicy `json:"sandbox,omitempty"`
	Roots    any                     `json:"roots,omitempty"`
}

// environment is an EnvironmentPolicy that is compared byte by byte.
type environment struct {
	Inherit     messages.Inherit `json:"inherit,omitempty"`
	DropSecrets bool             `json:"drop_secrets,omitempty"`
	Exact       bool             `json:"exact,omitempty"`
	Exclude     any              `json:"exclude,omitempty"`
	IncludeOnly any              `json:"include_only,omitempty"`
	Set         any              `json:"set,omitempty"` // names and values in turn
}

// AfterDenial is the key of an approval for a second attempt, without a sandbox, of the command with a [Plan.CacheKey].
func AfterDenial(key string) string { return key + " after a denial" }

// key is the cache key of a plan for the command with open or closed input.
func (m *maker) key(plan Plan, openInput bool) string {
	a := approved{Command: texts(m.canonical()), Places: m.elsewhere(), Dir: exact(tidy(m.request.Dir)), OpenInput: openInput, Attempt: plan.FirstAttempt,
		OnDenial: plan.OnDenial}
	if len(m.request.Argv) > 0 && m.request.Argv0 != m.request.Argv[0] {
		a.Argv0 = exact(m.request.Argv0)
	}
	if changes(m.request.Environment) {
		a.Environment = keyEnvironment(m.request.Environment)
	}
	if override(m.request.CommandPolicy) {
		a.Permissions = m.request.SandboxPermissions
	}
	if p := m.request.AdditionalPermissions; p != nil {
		a.Network = p.Network != nil && p.Network.Enabled
		if p.FileSystem != nil {
			a.Read, a.Write = m.places(p.FileSystem.Read), m.places(p.FileSystem.Write)
		}
	}
	if plan.FirstAttempt == Sandboxed {
		sandbox := m.sandbox
		sandbox.WritableRoots, a.Roots = nil, texts(m.sandbox.WritableRoots)
		a.Sandbox = &sandbox
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and booleans
	}
	return shortKey(text)
}

// shortKey is a text as a key.
func shortKey(text []byte) string {
	if len(text) > longKey {
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:])
	}
	return string(text)
}

// longKey is the greatest length of a key, in bytes. A longer one is replaced by its hash: keys are kept with the
// grants, and commands may have megabytes.
const longKey = 4 << 10

// canonical is the command without irrelevant differences. A program outside of the system's directories is known by its
// path. Variables and another argv[0] mean something else to a shell than to the program in its script.
func (m *maker) canonical() []string {
	switch {
	case m.altered && m.understood.Script:
		return command.CanonicalScript(m.request.Argv)
	case m.single() && m.commands[0].written != nil:
		return m.commands[0].words
	}
	return m.understood.Canonical
}

// single reports whether there is only one command, with or without a shell around it.
func (m *maker) single() bool {
	return len(m.commands) == 1 && len(m.understood.Commands) == 1 && slices.Equal(m.understood.Commands[0], m.understood.Canonical)
}

// elsewhere are the programs that a script finds outside of the system's directories. In canonical they have only their
// names.
func (m *maker) elsewhere() any {
	if !m.understood.Script || m.single() && !m.altered {
		return nil
	}
	var paths []string
	for _, c := range m.commands {
		if c.written != nil {
			paths = append(paths, c.words[0])
		}
	}
	if len(paths) == 0 {
		return nil
	}
	slices.Sort(paths)
	return texts(slices.Compact(paths))
}

// places are what paths lead to, sorted, without repeats: the directory with the names below it or, where that is not known, the path
// made absolute.
func (m *maker) places(paths []string) any {
	var result []string
	for _, path := range paths {
		if at, known := m.request.Located[path]; known {
			result = append(result, fmt.Sprintf("\x00%d:%d:%d/%s", at.Device, at.Inode, at.Born, at.Below)) // no path begins with a NUL
			continue
		}
		if !filepath.IsAbs(path) {
			path = m.request.Dir + "/" + path
		}
		result = append(result, tidy(path))
	}
	slices.Sort(result)
	return texts(slices.Compact(result))
}

// tidy is a path without irrelevant differences. A ".." stays, because it depends on symbolic links, which are not followed
// here.
func tidy(path string) string {
	if strings.Contains(path, "..") {
		return path
	}
	return filepath.Clean(path)
}

func keyEnvironment(e *messages.EnvironmentPolicy) *environment {
	sorted := func(patterns []string) any { return texts(slices.Compact(slices.Sorted(slices.Values(patterns)))) }
	result := &environment{Inherit: e.Inherit, DropSecrets: e.DropSecrets, Exact: e.Exact, Exclude: sorted(e.Exclude),
		IncludeOnly: sorted(e.IncludeOnly)}
	if e.Inherit == messages.InheritAll {
		result.Inherit = ""
	}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(e.Set)) {
		set = append(set, name, e.Set[name])
	}
	result.Set = texts(set)
	return result
}
