package command

import (
	"path/filepath"
	"slices"
	"strings"
)

// Understanding has the commands that a command line is known to run.
type Understanding struct {
	// Commands are the commands in the order of the text, each a program with its words; all of argv where a script could
	// not be taken apart.
	Commands [][]string
	// Plain says that Commands is everything that runs, if all of it does, and that the programs are what their names say. A
	// command is known to be safe only where Plain is true. Plain is also true for an argv that is not a shell's script,
	// because that is one command, unless its program was found outside of the directories where the system keeps its own.
	Plain bool
	// Script says that argv is a script for a trusted shell. Otherwise Commands is argv alone.
	Script bool
	// Complex says that Commands is the one command of a script with here-documents. Rules apply to it, but it is never
	// known to be safe, and no rule is offered for it.
	Complex bool
	// Canonical is equal only for command lines that do the same thing. It is not meant to be shown to people.
	Canonical []string
}

// shellNames are the shells whose scripts are understood.
var shellNames = []string{"bash", "zsh", "sh"}

// shellDirs are the directories in which a shell is taken for the system's own; for other programs these are systemDirs.
var shellDirs = []string{"/bin", "/usr/bin", "/usr/local/bin"}

// Line is one command line as it is about to run.
type Line struct {
	Argv []string
	// Program is the absolute path at which Argv[0] was found, or any text that is not an absolute path if it was not
	// found. Empty means that there was no lookup, and that a name is taken for the program that usually has it.
	Program string
	// TrustedShells are absolute paths of shells besides the system's own.
	TrustedShells []string
}

// Understand says which commands a command line runs. It reads nothing but its arguments and runs nothing.
//
// A script is looked into if argv is exactly a trusted shell, -c or -lc, and the script. A shell is trusted by its
// path: Line.Program, or argv[0] without a lookup, has to be bash, zsh or sh in /bin, /usr/bin or /usr/local/bin, or
// one of TrustedShells; a bare name is trusted without a lookup. Everything else is one command with arguments.
//
// A script is plain if it is nothing but programs with literal words, joined by && || | ; and newlines. Programs are
// bare words of ASCII letters, digits and "_./+@-". None may be a reserved word or a builtin command of bash, zsh or
// sh, except cd, echo, false, pwd, true and ":", and those forms of exit, set and test that Idle knows. After cd, no
// program may have a relative path. In words, quotes and backslashes are resolved. Expansions, braces, comments and
// control characters make a script not plain, and so do bare characters beyond ASCII that are blank or invisible.
// Redirections do too, except those of output to /dev/null or to the other output, and of input from /dev/null.
// Patterns, and paths that begin with ~, may only be words of programs that are safe with any words: for another
// program, a file called --output=x would be an option.
//
// It cannot see the aliases, functions and hooks that a shell has from its start files or from the environment.
func Understand(line Line) Understanding {
	argv := line.Argv
	if len(argv) == 0 {
		return Understanding{}
	}
	if !line.runsScript() {
		return Understanding{Commands: [][]string{argv}, Canonical: canonicalArgv(argv),
			Plain: line.Program == "" || InSystemDir(line.Program)}
	}
	u := Understanding{Commands: [][]string{argv}, Canonical: CanonicalScript(argv), Script: true}
	script, understood := readScript(argv[2])
	if !understood {
		return u
	}
	u.Commands = nil
	for _, command := range script.commands {
		u.Commands = append(u.Commands, command.words)
	}
	u.Plain, u.Complex = !script.heredoc, script.heredoc
	if canonical, found := canonicalPlain(script); found {
		u.Canonical = canonical
	}
	return u
}

// runsScript reports whether argv gives a script to a shell that is trusted.
func (l Line) runsScript() bool {
	argv := l.Argv
	if len(argv) != 3 || argv[1] != "-c" && argv[1] != "-lc" {
		return false
	}
	name, program := argv[0], l.Program
	bare := !strings.Contains(name, "/")
	if program == "" {
		if bare {
			return slices.Contains(shellNames, name)
		}
		program = name
	}
	base := filepath.Base(program)
	if !slices.Contains(shellNames, base) || bare && name != base || !bare && name != program {
		return false
	}
	return inDirs(program, shellDirs) || filepath.IsAbs(program) && slices.Contains(l.TrustedShells, program)
}

// systemDirs are the directories in which only the system's administrator puts programs.
var systemDirs = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"}

// InSystemDir reports whether a path names a program directly in one of the directories where the system keeps its own. A
// path that is not clean does not: with ".." it may lead anywhere.
func InSystemDir(path string) bool { return inDirs(path, systemDirs) }

// inDirs reports whether a path names a file in one of the directories, without a detour.
func inDirs(path string, dirs []string) bool {
	return filepath.Clean(path) == path && slices.Contains(dirs, filepath.Dir(path))
}
