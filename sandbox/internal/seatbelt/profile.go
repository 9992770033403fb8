package seatbelt

import (
	"fmt"
	"slices"
	"strings"
)

// Program is the system's own, whatever PATH says.
const Program = "/usr/bin/sandbox-exec"

// Rules are a policy with its paths looked up. All are absolute, clean, and as the kernel sees them: /private/tmp, not /tmp.
type Rules struct {
	Write []Root
	// Unreadable can neither be read nor written, with all below it.
	Unreadable []string
	Network    bool
	// Sockets are unix sockets that can be connected to although they lie outside of the roots.
	Sockets []string
}

// Root can be written, but for what is protected below it. That need not exist, and then cannot come to exist.
type Root struct {
	Path      string
	Protected []string
}

// Profile is what sandbox-exec is given.
type Profile struct {
	Text       string
	Parameters []Parameter // in the order of the text
}

// Parameter is a path with the name by which the text calls it.
type Parameter struct{ Name, Value string }

// Argv is the command line that runs a program, named by its absolute path, under the profile.
func (p Profile) Argv(program string, arguments ...string) []string {
	argv := []string{Program, "-p", p.Text}
	for _, parameter := range p.Parameters {
		argv = append(argv, "-D"+parameter.Name+"="+parameter.Value)
	}
	return slices.Concat(argv, []string{"--", program}, arguments)
}

// Write writes the profile of some rules. Of two rules about the same the later one counts, so what is denied comes last.
func Write(rules Rules) Profile {
	w := &writer{}
	w.text.WriteString(base)
	w.roots(rules.Write)
	w.sockets(rules)
	if rules.Network {
		w.text.WriteString(network)
	}
	for i, path := range rules.Unreadable {
		w.line("(deny file-read* file-write* %s)", w.below(fmt.Sprintf("UNREADABLE_%d", i), path))
	}
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

// below matches a path and all that lies below it. The path itself is named for what does not exist.
func (w *writer) below(name, path string) string {
	parameter := w.parameter(name, path)
	return fmt.Sprintf("(literal %s) (subpath %s)", parameter, parameter)
}

// roots lets files be written below them.
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

// sockets lets unix sockets be reached below the roots and where the rules name them.
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
