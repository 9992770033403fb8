package command

import (
	"path/filepath"
	"strings"
)

// These are the first words of canonical forms that are not an argv. No program can have such a name: the kernel ends words
// at a NUL.
const (
	formArgv   = "\x00argv"
	formPlain  = "\x00plain"
	formScript = "\x00script"
)

// canonicalArgv is argv itself, unless it looks like another form.
func canonicalArgv(argv []string) []string {
	if strings.HasPrefix(argv[0], "\x00") {
		return append([]string{formArgv}, argv...)
	}
	return argv
}

// CanonicalScript is the form of a script that is not understood at all: only the shell's directory is left out. The
// shell's name stays, because shells differ.
func CanonicalScript(argv []string) []string {
	return []string{formScript, filepath.Base(argv[0]), argv[1], argv[2]}
}

// canonicalPlain is the form of a plain script. A single command is that command, as if there were no shell. For several
// commands, blanks and quotes are left out; whether the two outputs are joined is left out for all scripts. A script with a
// pattern has no such form, because a pattern means something else once it is quoted.
func canonicalPlain(script plainScript) (form []string, found bool) {
	if script.heredoc {
		return nil, false
	}
	if len(script.commands) > 1 || idle[script.commands[0].words[0]] { // no program is called exit
		form = append(form, formPlain)
	}
	for _, command := range script.commands {
		if command.pattern {
			return nil, false
		}
		if command.joint != "" {
			form = append(form, "\x00"+command.joint)
		}
		form = append(form, command.words...)
		for _, null := range command.nulls { // without the redirection the command reads or writes more
			form = append(form, "\x00"+null)
		}
	}
	return form, true
}
