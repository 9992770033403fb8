package command

import (
	"path/filepath"
	"slices"
	"strings"
)

// Understanding is what a command line is known to run.
type Understanding struct {
	// Commands are the commands in the order of the text, each a program with its words; all of argv where a script could
	// not be taken apart.
	Commands [][]string
	// Plain says that Commands is everything that runs, if all of it does, and that the programs are what their names say. A
	// command is known to be safe only where this is true. It is also true for an argv that is no shell's script: that is one
	// command. The exception is a program that was found elsewhere than where the system keeps its own.
	Plain bool
	// Script says that argv is a script for a trusted shell. Otherwise Commands is argv alone.
	Script bool
	// Complex says that Commands is the one command of a script with here-documents: rules apply to it, but it is never known
	// to be safe, and nothing is proposed to be remembered for it.
	Complex bool
	// Canonical is equal only for command lines that do the same. It is not for showing to people.
	Canonical []string
}

// shellNames are the shells whose scripts are looked into.
var shellNames = []string{"bash", "zsh", "sh"}

// shellDirs are where a shell is taken for the system's own; for other programs that is systemDirs.
var shellDirs = []string{"/bin", "/usr/bin", "/usr/local/bin"}

// Line is one command line as it is about to run.
type Line struct {
	Argv []string
	// Program is the absolute path that Argv[0] was found under, or what is no absolute path if it leads nowhere; empty: nobody
	// looked, and a name is taken for what it usually is.
	Program string
	// TrustedShells are absolute paths of shells besides the system's own.
	TrustedShells []string
}

// Understand says what a command line runs. It reads nothing but its arguments and runs nothing.
//
// A script is looked into if argv is exactly a trusted shell, -c or -lc, and the script. A shell is trusted by its
// path: Line.Program, or argv[0] where nobody looked, has to be bash, zsh or sh in /bin, /usr/bin or /usr/local/bin, or
// one of TrustedShells; a bare name is trusted where nobody looked. Everything else is one command with arguments.
//
// A script is plain if it is nothing but programs with literal words, joined by && || | ; and newlines. Programs are bare
// words of ASCII letters, digits and "_./+@-". None may be a reserved word or a builtin command of bash, zsh or sh, but for
// cd, echo, false, pwd, true and ":", and forms of exit, set and test that Idle knows; after cd there may be no relative path
// to a program. In words, quotes and backslashes are resolved; expansions, braces, comments and control characters make a
// script not plain, and so do bare characters beyond ASCII that are blanks or cannot be seen. So do redirections, but for
// those of output to /dev/null or to the other output, and of input from /dev/null. Patterns, and paths that begin with ~,
// may only be words of programs that are safe whatever their words: as a word of another, a file called --output=x would be
// an option.
//
// What it cannot see: aliases, functions and hooks that the shell has from its start files or from the environment.
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

// systemDirs are where only the system's administrator puts programs.
var systemDirs = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"}

// InSystemDir reports whether a path names a program directly in one of the directories where the system keeps its own. One
// that is not clean does not: through ".." such a directory leads anywhere.
func InSystemDir(path string) bool { return inDirs(path, systemDirs) }

// inDirs reports whether a path names a file in one of the directories, without a detour.
func inDirs(path string, dirs []string) bool {
	return filepath.Clean(path) == path && slices.Contains(dirs, filepath.Dir(path))
}
