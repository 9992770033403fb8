package command

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// safeAlways are the programs that only look, with any words. safeSome do so with some words. safeConfined do so only
// in a sandbox: git status also runs programs that the repository configures.
var (
	safeAlways = wordSet(`cat cd cut du echo expr false grep head id ls nl paste pwd rev seq stat tail tr true uname wc which
		whoami` + onLinux(` numfmt tac`))
	safeSome = map[string]func(args []string) bool{
		"base64": safeBase64, "date": safeDate, "diff": safeDiff, "find": safeFind, "jq": safeJq, "rg": safeRg, "sed": safeSed,
		"sort": safeSort, "uniq": safeUniq,
	}
	safeConfined = map[string]func(args []string) bool{"git": safeGit}
)

func onLinux(words string) string {
	if runtime.GOOS == "linux" {
		return words
	}
	return ""
}

// Setting is where a command would run.
type Setting struct {
	Confined bool   // in a sandbox of ours
	Dir      string // absolute; empty: unknown
	// Leads returns where an absolute path leads that consists of Dir and one that Files names: to a file or directory, without links and
	// "..". Empty means that this is not known. Nil means that there was no lookup, and that only the text counts.
	Leads func(path string) string
}

// Safe reports whether one command is known only to look at things: it changes no file, runs no other program, and looks at
// nothing under /proc, /sys and /dev, where the environments of other processes and the contents of disks are. Programs are known by a bare name, or by a
// path in the system's own directories. Pass only commands that Understand calls plain: in any other script the words are
// not those that the program gets.
//
// Safe trusts that a bare name finds the system's program. Without Setting.Leads it trusts symbolic links.
func Safe(words []string, at Setting) bool {
	if len(words) == 0 {
		return false
	}
	name, known := safeName(words[0])
	if !known || !readsNothing[name] && at.kernelFiles(name, words[1:]) {
		return false
	}
	check := safeSome[name]
	if check == nil && at.Confined {
		check = safeConfined[name]
	}
	return safeAlways[name] || check != nil && check(words[1:])
}

// safeWithAnyWords reports whether a program is safe with any words, apart from the files that they make it read.
func safeWithAnyWords(program string) bool {
	name, known := safeName(program)
	return known && safeAlways[name]
}

// safeName is the name by which a program can be recognised.
func safeName(program string) (name string, known bool) {
	if strings.Contains(program, "/") {
		return filepath.Base(program), InSystemDir(program)
	}
	return program, true
}

// option reports whether a word is a long option, alone or with "=value", or an abbreviation that getopt accepts for it.
func option(word, long string) bool {
	name, _, _ := strings.Cut(word, "=")
	return len(name) > 2 && strings.HasPrefix(name, "--") && strings.HasPrefix(long, name)
}

// has reports whether one of the words is one of the long options, or a cluster of short options with one of the letters.
// It does not know which letters are the value of another option, so it may report too much.
func has(args []string, letters string, longs ...string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.ContainsAny(arg, letters) {
			return true
		}
		return slices.ContainsFunc(longs, func(long string) bool { return option(arg, long) })
	})
}

func safeBase64(args []string) bool { return !has(args, "o", "--output") }

// safeDiff excludes the options that make diff run pr.
func safeDiff(args []string) bool { return !has(args, "l", "--paginate") }

func safeRg(args []string) bool { return !has(args, "z", "--search-zip", "--pre", "--hostname-bin") }

// safeSort writes nowhere, compresses with nothing, and does not read names of files from a file.
func safeSort(args []string) bool {
	return !has(args, "oT", "--output", "--temporary-directory", "--compress-program", "--files0-from")
}

var (
	dateWords  = wordSet(`-u --utc --universal -R --rfc-email -I -Idate -Ihours -Iminutes -Iseconds -Ins --iso-8601`)
	dateValues = wordSet(onLinux(`-d -r --date --reference`)) // the next word is one
	dateGlued  = []string{"+", "--iso-8601=", "--rfc-3339="}
)

// safeDate knows the options that only show; a bare word would be the time to set.
func safeDate(args []string) bool {
	for i := 0; i < len(args); i++ {
		name, _, glued := strings.Cut(args[i], "=")
		switch {
		case dateWords[args[i]] || slices.ContainsFunc(dateGlued, func(p string) bool { return strings.HasPrefix(args[i], p) }):
		case glued && strings.HasPrefix(name, "--") && dateValues[name]:
		case dateValues[args[i]] && i+1 < len(args):
			i++
		default:
			return false
		}
	}
	return true
}

var (
	jqOptions = wordSet(`--ascii-output --color-output --compact-output --exit-status --join-output --monochrome-output --null-input
		--raw-input --raw-output --raw-output0 --seq --slurp --sort-keys --stream --tab --unbuffered --indent --arg --argjson --args --jsonargs`)
	// jqLooks are the words with which a filter looks at the environment, or reads files besides those that are named.
	jqLooks = wordSet(`env ENV import include modulemeta`)
)

// safeJq knows the options that read no file, and the filters that look only at the input.
func safeJq(args []string) bool {
	return !slices.ContainsFunc(args, func(arg string) bool {
		cluster, short := strings.CutPrefix(arg, "-")
		switch {
		case strings.HasPrefix(arg, "--"):
			return !jqOptions[arg]
		case short:
			return strings.Trim(cluster, "CMRSacehjnrs") != ""
		}
		names := strings.FieldsFunc(arg, func(r rune) bool { return !strings.ContainsRune(letters+digits+"_", r) })
		return slices.ContainsFunc(names, func(name string) bool { return jqLooks[name] })
	})
}

var unsafeFind = wordSet(`-exec -execdir -ok -okdir -delete -fls -fprint -fprint0 -fprintf`)

func safeFind(args []string) bool {
	return !slices.ContainsFunc(args, func(arg string) bool { return unsafeFind[arg] })
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

// safeUniq knows the options, and at most one operand after them, because uniq writes to a second one. Where options end at
// the first operand, as on macOS or with POSIXLY_CORRECT, all words after it are operands.
func safeUniq(args []string) bool {
	operand := slices.IndexFunc(args, func(arg string) bool { return arg == "-" || !strings.HasPrefix(arg, "-") })
	return !slices.Contains(args, "--") && (operand < 0 || operand == len(args)-1)
}
