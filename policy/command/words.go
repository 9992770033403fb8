package command

import (
	"strings"
)

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// plainProgram reports whether the first word of a command names a program, or a builtin command that can neither run a
// command nor change what later names mean.
func plainProgram(name string) bool {
	if inert[name] {
		return true
	}
	return name != "" && strings.Trim(name, letters+digits+"_./+@-") == "" && !shellWords[name] &&
		name[0] != '-' && name[0] != '+' // bash -c takes a script that begins with such a character as another option
}

// inert are the builtin commands of shells that have no effect on the commands after them, with any words. After cd,
// programs with a relative path are unknown.
var inert = wordSet(`: cd echo false pwd true`)

// shellWords are the other builtin commands and the reserved words of bash, zsh, dash and ksh. A script with one of
// them as a program is not plain: they run their words (eval, exec, command, trap), change what a name means (alias,
// hash, enable, set), assign to PATH (read, printf -v, printf %n), or run a command that is hidden in a subscript (test
// -v, let, unset).
var shellWords = wordSet(`
	! . - [ [[ ]] { } ]
	alias always autoload bg bind bindkey break builtin bye caller cap case chdir clone command comparguments compcall compctl
	compdescribe compfiles compgen compgroups complete compopt compquote compset comptags comptry compvalues continue coproc
	declare dirs disable disown do done echotc echoti elif else emulate enable end esac eval exec exit export fc fg fi float
	for foreach function functions getcap getconf getln getopts hash help hist history if in integer jobs kill let limit local
	log logout mapfile namespace nameref nocorrect noglob pcre_compile pcre_match pcre_study popd print printf private
	privileges prompt pushd pushln r read readarray readonly rehash repeat return sched select set setcap setopt shift shopt
	sleep source stop strftime suspend sysopen sysread sysseek syswrite syserror test then time times trap ttyctl type typeset
	ulimit umask unalias unfunction unhash unlimit unset unsetopt until vared wait whence where while xtrace zcompile zcurses
	zformat zftp zle zmodload zmv zparseopts zprof zpty zregexparse zselect zsocket zstat zstyle zsystem ztcp
`)

// Builtin reports whether a shell runs a command of this name itself, without a look at PATH.
func Builtin(name string) bool { return inert[name] || idle[name] }

// idle are builtin commands that a plain script may have in forms that Idle knows.
var idle = wordSet(`[ exit set test`)

// setWords are the words after set that only make the script stop earlier. Tracing is not among them, because it would
// expand PS4.
var setWords = wordSet(`-e -u -eu -ue errexit nounset pipefail -o -eo -uo -euo -ueo`)

// Idle reports whether a command in a plain script only steers the shell: true, false, ":", exit with a number, set -e and
// the like, and test on files and texts. Arithmetic is not known, because zsh expands it.
func Idle(words []string) bool {
	name, args := words[0], words[1:]
	switch name {
	case ":", "true", "false":
		return true
	case "exit":
		return len(args) == 0 || len(args) == 1 && len(args[0]) <= 3 && lineNumber(args[0])
	case "set":
		return len(args) > 0 && idleSet(args)
	case "[":
		return len(args) > 0 && args[len(args)-1] == "]" && idleTest(args[:len(args)-1])
	case "test":
		return idleTest(args)
	}
	return false
}

// idleSet knows the words that take a name: -o pipefail.
func idleSet(args []string) bool {
	for i, arg := range args {
		named := i > 0 && strings.HasSuffix(args[i-1], "o")
		if !setWords[arg] || named == strings.HasPrefix(arg, "-") {
			return false
		}
	}
	return !strings.HasSuffix(args[len(args)-1], "o")
}

var (
	testUnary  = wordSet(`-d -e -f -h -L -n -r -s -w -x -z`)
	testBinary = wordSet(`= != -ef -nt -ot`)
)

func idleTest(args []string) bool {
	operand := func(word string) bool {
		return !strings.HasPrefix(word, "-") && word != "!" && word != "(" && word != ")"
	}
	if len(args) > 0 && args[0] == "!" {
		args = args[1:]
	}
	switch len(args) {
	case 2:
		return testUnary[args[0]] && operand(args[1])
	case 3:
		return operand(args[0]) && testBinary[args[1]] && operand(args[2])
	}
	return false
}

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}
