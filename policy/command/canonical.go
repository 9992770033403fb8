package command

import (
	"path/filepath"
	"strings"
)

// The first words of canonical forms that are no argv. No program can be called so: the kernel ends words at a NUL.
const (
	formArgv   = "\x00argv"
	formPlain  = "\x00plain"
	formScript = "\x00script"
)

// canonicalArgv is argv itself, but for one that looks like another form.
func canonicalArgv(argv []string) []string {
	if strings.HasPrefix(argv[0], "\x00") {
		return append([]string{formArgv}, argv...)
	}
	return argv
}

// CanonicalScript is the form of a script of which nothing is understood: only the shell's directory is left out. Shells
// differ, so its name is not.
func CanonicalScript(argv []string) []string {
	return []string{formScript, filepath.Base(argv[0]), argv[1], argv[2]}
}

// canonicalPlain is the form of a plain script. One command is that command, as if there were no shell; of several the
// blanks and quotes are left out, and of all whether the two outputs are joined. A pattern has none: unquoted it does
// something else than quoted.
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
		for _, null := range command.nulls { // without it there is more to read, or to write to
			form = append(form, "\x00"+null)
		}
	}
	return form, true
}
