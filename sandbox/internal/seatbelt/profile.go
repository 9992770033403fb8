package seatbelt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Program is the system's own sandbox-exec, whatever PATH says.
const Program = "/usr/bin/sandbox-exec"

// Profile is the input of sandbox-exec.
type Profile struct {
	Text       string
	Parameters []Parameter // in the order of the text
}

// Parameter is a path and its name in the text.
type Parameter struct{ Name, Value string }

// Argv is the command line that runs a program, named by its absolute path, under the profile.
func (p Profile) Argv(program string, arguments ...string) []string {
	argv := []string{Program, "-p", p.Text}
	for _, parameter := range p.Parameters {
		argv = append(argv, "-D"+parameter.Name+"="+parameter.Value)
	}
	return slices.Concat(argv, []string{"--", program}, arguments)
}

// Write writes the profile of some rules. If two rules match, the later one counts, so denials come last.
func Write(rules Rules) Profile {
	w := &writer{}
	w.text.WriteString(base)
	w.roots(rules.Write)
	w.sockets(rules)
	if rules.Network {
		w.text.WriteString(network)
	}
	w.reading(rules.Reading)
	return Profile{Text: w.text.String(), Parameters: w.parameters}
}

type writer struct {
	text       strings.Builder
	parameters []Parameter
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

// parameter gives a path a name.
func (w *writer) parameter(name, path string) string {
	w.parameters = append(w.parameters, Parameter{name, path})
	return fmt.Sprintf("(param %q)", name)
}

// below matches a path and everything below it. It names the path itself, too, because that may not exist.
func (w *writer) below(name, path string) string {
	parameter := w.parameter(name, path)
	return fmt.Sprintf("(literal %s) (subpath %s)", parameter, parameter)
}

// roots allows writing to files below the roots.
func (w *writer) roots(roots []Root) {
	for i, root := range roots {
		name := fmt.Sprintf("ROOT_%d", i)
		clauses := []string{fmt.Sprintf("(subpath %s)", w.parameter(name, root.Path))}
		for j, path := range root.Protected {
			clauses = append(clauses, fmt.Sprintf("(require-not (require-any %s))", w.below(fmt.Sprintf("%s_PROTECTED_%d", name, j), path)))
		}
		w.line("(allow file-write* (require-all %s))", strings.Join(clauses, " "))
	}
}

// reading denies to read, and to write, what must not be read, and allows the exceptions.
func (w *writer) reading(rules []confine.Rule) {
	for i, rule := range rules {
		switch rule.Access {
		case confine.Nothing:
			w.line("(deny file-read* file-write* %s)", w.below(fmt.Sprintf("UNREADABLE_%d", i), rule.Path))
		case confine.Read:
			w.line("(allow file-read* %s)", w.below(fmt.Sprintf("READABLE_%d", i), rule.Path))
		case confine.Write:
			w.line("(allow file-read* file-write* %s)", w.below(fmt.Sprintf("READABLE_%d", i), rule.Path))
		}
	}
}

// sockets allows unix sockets below the roots and those that the rules name.
func (w *writer) sockets(rules Rules) {
	for i := range rules.Write {
		below := fmt.Sprintf("(subpath (param \"ROOT_%d\"))", i)
		w.line("(allow network-outbound (remote unix-socket %s))", below)
		w.line("(allow network-bind network-inbound (local unix-socket %s))", below)
	}
	for i, path := range rules.Sockets {
		w.line("(allow network-outbound (remote unix-socket (literal %s)))", w.parameter(fmt.Sprintf("SOCKET_%d", i), path))
	}
}
