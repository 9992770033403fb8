package command

import (
	"path/filepath"
	"slices"
	"strings"
)

// Shells are the shells that take a script after -c, as POSIX says, and a login flag before it. Their scripts are searched, and
// only they are started for a script.
func Shells() []string { return slices.Clone(shells) }

var shells = []string{"bash", "zsh", "sh", "dash", "ash", "ksh", "ksh93", "mksh", "oksh", "yash", "rbash"}

// MultiShell is a program that contains a shell among other programs.
const MultiShell = "busybox"

var (
	// otherShells have a syntax of their own, which is near enough to look for commands in it.
	otherShells = wordSet(`csh fish hush loksh lksh mrbash pdksh posh rksh rksh93 rzsh tcsh`)
	// foreignShells take a script after -c that nobody here can read. So does every other program whose name ends in "sh", except
	// some.
	foreignShells = wordSet(`elvish es murex nu nushell oil osh pwsh powershell rc xonsh ysh`)
	notShells     = wordSet(`autossh finish flush hash mosh push refresh rsh slogin ssh trash wish`)
	// singleDash are long options that bash also takes with one dash, in front of all others.
	singleDash = wordSet(`debug debugger dump-po-strings dump-strings help init-file login noediting noprofile norc posix pretty-print
		rcfile restricted verbose version wordexp`)
	// shellValues are the long options with a value in the next word.
	shellValues = wordSet(`rcfile init-file emulate`)
	// shellCode are the long options whose value is a script.
	shellCode = wordSet(`command init-command`)
)

// ShellName is the name of a program's file without its extension.
func ShellName(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// isShell reports whether a program is a shell whose scripts are searched.
func isShell(program string) bool {
	name := ShellName(program)
	return slices.Contains(shells, name) || otherShells[name]
}

// isForeignShell reports whether a program may be a shell whose scripts are not searched.
func isForeignShell(program string) bool {
	name := strings.TrimRight(ShellName(program), "0123456789.-_")
	return !isShell(program) && (foreignShells[name] || strings.HasSuffix(name, "sh") && !notShells[name] && !strings.ContainsAny(name, "-_"))
}

// shellCall is what the words of a shell say.
type shellCall struct {
	scripts []string // after -c and the like
	code    bool     // there is a -c, even if no script follows
	file    string   // the file that is run; empty: none
	startup []string // files that are read before
	words   []string // after the script or the file
}

// readShell reads the words of a shell. Each o in a cluster of options takes a word.
func readShell(name string, args []string) (call shellCall) {
	input, unsure := false, ""
	for i := 0; i < len(args); i++ {
		arg := args[i]
		long, isLong := strings.CutPrefix(arg, "--")
		if short, single := strings.CutPrefix(arg, "-"); !isLong && single && singleDash[short] {
			long, isLong = short, true
		}
		switch {
		case arg == unknown && !call.code: // perhaps options
			unsure = arg
		case arg == "--" || arg == "-":
			call.operands(args[i+1:], input)
			return call
		case isLong:
			name, value, glued := strings.Cut(long, "=")
			if !glued && (shellValues[name] || shellCode[name]) && i+1 < len(args) {
				i++
				value = args[i]
			}
			switch {
			case shellCode[name]:
				call.scripts = append(call.scripts, value)
			case name == "rcfile" || name == "init-file":
				call.startup = append(call.startup, value)
			}
		case len(arg) > 1 && (arg[0] == '-' || arg[0] == '+'):
			call.code = call.code || arg[0] == '-' && strings.Contains(arg, "c")
			input = input || strings.Contains(arg, "s")
			if name == "fish" && strings.HasSuffix(arg, "C") && i+1 < len(args) {
				i++
				call.scripts = append(call.scripts, args[i])
			}
			i += strings.Count(arg, "o") + strings.Count(arg, "O")
		default:
			call.operands(args[i:], input)
			return call
		}
	}
	if !call.code {
		call.file = unsure
	}
	return call
}

// operands are the words behind the options.
func (c *shellCall) operands(args []string, input bool) {
	switch {
	case len(args) == 0:
	case c.code:
		c.scripts, c.words = append(c.scripts, args[0]), args[1:]
	case len(c.scripts) == 0 && !input:
		c.file, c.words = args[0], args[1:]
	default:
		c.words = args
	}
}
