package command

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// safeAlways are the programs that only look, whatever their words; safeSome do so with some words.
var (
	safeAlways = wordSet(`cat cd cut echo expr false grep head id ls nl paste pwd rev seq stat tail tr true uname wc which whoami` +
		onLinux(` numfmt tac`))
	safeSome = map[string]func(args []string) bool{
		"base64": safeBase64, "find": safeFind, "git": safeGit, "rg": safeRg, "sed": safeSed, "uniq": safeUniq,
	}
)

func onLinux(words string) string {
	if runtime.GOOS == "linux" {
		return words
	}
	return ""
}

// Safe reports whether one command is known only to look at things: it changes no file and runs no other program. Programs
// are known by a bare name, or by a path in the system's own directories. Only what Understand calls plain may be asked
// about: in anything else the words are not what the program gets.
//
// Two things are taken on trust: that a bare name finds the system's program, and what git is configured to run.
func Safe(words []string) bool {
	if len(words) == 0 {
		return false
	}
	if safeWithAnyWords(words[0]) {
		return true
	}
	name, known := safeName(words[0])
	check := safeSome[name]
	return known && check != nil && check(words[1:])
}

// safeWithAnyWords reports whether a program is safe whatever its words.
func safeWithAnyWords(program string) bool {
	name, known := safeName(program)
	return known && safeAlways[name]
}

// safeName is the name of a program that can be known by it.
func safeName(program string) (name string, known bool) {
	if strings.Contains(program, "/") {
		return filepath.Base(program), InSystemDir(program)
	}
	return program, true
}

// option reports whether a word is a long option, alone or with "=value", or what getopt takes for it: an abbreviation.
func option(word, long string) bool {
	name, _, _ := strings.Cut(word, "=")
	return len(name) > 2 && strings.HasPrefix(name, "--") && strings.HasPrefix(long, name)
}

func safeBase64(args []string) bool {
	return !slices.ContainsFunc(args, func(arg string) bool {
		return option(arg, "--output") || strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "o")
	})
}

var unsafeFind = wordSet(`-exec -execdir -ok -okdir -delete -fls -fprint -fprint0 -fprintf`)

func safeFind(args []string) bool {
	return !slices.ContainsFunc(args, func(arg string) bool { return unsafeFind[arg] })
}

func safeRg(args []string) bool {
	return !slices.ContainsFunc(args, func(arg string) bool {
		return option(arg, "--search-zip") || option(arg, "--pre") || option(arg, "--hostname-bin") ||
			strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "z")
	})
}

// safeSed knows "sed -n 5p" and "sed -n 5,7p", with at most one file; one that begins with "-" would be an option.
func safeSed(args []string) bool {
	if len(args) < 2 || len(args) > 3 || args[0] != "-n" || len(args) == 3 && strings.HasPrefix(args[2], "-") {
		return false
	}
	lines, printed := strings.CutSuffix(args[1], "p")
	from, to, two := strings.Cut(lines, ",")
	return printed && lineNumber(from) && (!two || lineNumber(to))
}

func lineNumber(text string) bool { return text != "" && strings.Trim(text, digits) == "" }

// safeUniq knows options and at most one operand after them, because uniq writes to a second one. Where options end at the
// first operand, as on macOS or with POSIXLY_CORRECT, all that follows it are operands.
func safeUniq(args []string) bool {
	operand := slices.IndexFunc(args, func(arg string) bool { return arg == "-" || !strings.HasPrefix(arg, "-") })
	return !slices.Contains(args, "--") && (operand < 0 || operand == len(args)-1)
}

var (
	// gitGlobals are the options before the sub-command that lead to no other repository and no other program.
	gitGlobals = wordSet(`-P --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs
		--glob-pathspecs --noglob-pathspecs --icase-pathspecs`)
	gitActs     = []string{"--exec", "--ext-diff", "--help", "--output", "--show-signature", "--textconv"}
	gitSigned   = []string{"%G", "%+G", "%-G", "% G", "%(signature", "%(*signature"} // fields of formats for which gpg runs
	gitLooks    = wordSet(`status log diff show branch`)
	gitBranches = wordSet(`--list -l --show-current -a --all -r --remotes -v -vv --verbose`)
)

func safeGit(args []string) bool {
	for len(args) > 0 && gitGlobals[args[0]] {
		args = args[1:]
	}
	if len(args) == 0 || !gitLooks[args[0]] {
		return false
	}
	return !slices.ContainsFunc(args[1:], func(arg string) bool {
		if slices.ContainsFunc(gitSigned, func(field string) bool { return strings.Contains(arg, field) }) {
			return true
		}
		if args[0] == "branch" {
			return !gitBranches[arg] && !strings.HasPrefix(arg, "--format=")
		}
		isArg := func(long string) bool { return option(arg, long) }
		return arg != "--text" && slices.ContainsFunc(gitActs, isArg)
	})
}
