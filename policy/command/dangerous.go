package command

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of the search for dangerous commands.
const (
	maxWrapped = 8       // programs around a command
	maxLooks   = 1 << 20 // words and bytes of scripts looked at, however often
)

// Dangerous reports whether a command line removes by force: rm with -f, alone or in a cluster, or --force, before "--". It
// looks for commands that are written down literally, anywhere in a script, and through programs that run their words:
// sudo, doas, env, nice, nohup, timeout, xargs, stdbuf, setsid, command, exec, eval, trap, busybox, find -exec and the
// like, and shells with -c, one in the other up to eight times.
//
// It catches accidents, not intent: a program name that is a variable or is put together is not seen. Beyond the bounds
// the answer is the careful one: what is wrapped more often than eight times is dangerous, and so is what would take too
// long to search; a script that is too long to parse is, if a line of it has the words rm and -f. So is one with what is a
// syntax error here: it need not be one to the shell. zsh has its own syntax, and bash finds some errors when it gets there.
func Dangerous(argv []string) bool {
	s := search{left: maxLooks}
	return s.command(argv, 0)
}

// search is one search with what may still be spent on it.
type search struct{ left int }

// unknown stands for a part of a word that is not literal; no argument can contain it.
const unknown = "\x00"

// command looks at one command inside of level others.
func (s *search) command(words []string, level int) bool {
	if len(words) == 0 {
		return false
	}
	s.left -= len(words)
	if level > maxWrapped || s.left < 0 {
		return true
	}
	name, args := filepath.Base(words[0]), words[1:]
	switch name {
	case "rm":
		return removesByForce(args)
	case "find":
		return s.find(args, level)
	case "eval":
		return s.script(strings.Join(args, " "), level+1)
	case "trap":
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		return len(args) > 0 && s.script(args[0], level+1)
	}
	if isShell(name) {
		script, found := shellScript(args)
		return found && s.script(script, level+1)
	}
	if name == "env" {
		if line, found := splitString(args); found {
			return s.script(line, level+1)
		}
	}
	if carrier, found := carriers[name]; found {
		return s.command(carrier.carried(args), level+1)
	}
	return false
}

// removesByForce looks for -f among the words of rm.
func removesByForce(args []string) bool {
	for _, arg := range args {
		switch {
		case arg == "--":
			return false
		case strings.HasPrefix(arg, "--"):
			if option(arg, "--force") {
				return true
			}
		case strings.HasPrefix(arg, "-") && strings.Contains(arg, "f"):
			return true
		}
	}
	return false
}

// find looks at what find would run.
func (s *search) find(args []string, level int) bool {
	for i, arg := range args {
		switch arg {
		case "-exec", "-execdir", "-ok", "-okdir":
			rest := args[i+1:]
			if end := slices.Index(rest, ";"); end >= 0 {
				rest = rest[:end]
			}
			if s.command(rest, level+1) {
				return true
			}
		}
	}
	return false
}

// script looks at every command of a script.
func (s *search) script(text string, level int) bool {
	s.left -= len(text)
	if level > maxWrapped || s.left < 0 {
		return true
	}
	file, err := parseScript(strings.ToValidUTF8(text, "?"))
	if err != nil && looksForced(text) {
		return true
	}
	if errors.Is(err, errUnparsed) {
		return false
	}
	found := false
	for _, statement := range before(file.Stmts, err) {
		syntax.Walk(statement, func(node syntax.Node) bool {
			if !found {
				found = s.node(node, level)
			}
			return !found
		})
	}
	return found
}

// before are the statements in the lines before a syntax error; all if there is none.
func before(statements []*syntax.Stmt, err error) []*syntax.Stmt {
	var parse syntax.ParseError
	var language syntax.LangError
	var line uint
	switch {
	case err == nil:
		return statements
	case errors.As(err, &parse):
		line = parse.Pos.Line()
	case errors.As(err, &language):
		line = language.Pos.Line()
	}
	late := slices.IndexFunc(statements, func(s *syntax.Stmt) bool { return s.End().Line() >= line })
	if late < 0 {
		return statements
	}
	return statements[:late]
}

func (s *search) node(node syntax.Node, level int) bool {
	switch node := node.(type) {
	case *syntax.CallExpr:
		return s.command(literalWords(node.Args), level)
	case *syntax.Stmt:
		call, ok := node.Cmd.(*syntax.CallExpr)
		if !ok || !slices.ContainsFunc(literalWords(call.Args), isShell) {
			return false
		}
		for _, redirect := range node.Redirs { // a shell that reads its script from here
			text := redirect.Hdoc
			if redirect.Op == syntax.WordHdoc {
				text = redirect.Word
			}
			if text != nil && s.script(literalWord(text), level+1) {
				return true
			}
		}
	}
	return false
}

// looksForced looks at a script that cannot be parsed, line by line.
func looksForced(text string) bool {
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "rm") || !strings.Contains(line, "f") {
			continue
		}
		words := strings.FieldsFunc(line, func(r rune) bool { return !strings.ContainsRune(letters+digits+"_./-", r) })
		rm := slices.IndexFunc(words, func(word string) bool { return filepath.Base(word) == "rm" })
		if rm >= 0 && removesByForce(words[rm+1:]) {
			return true
		}
	}
	return false
}
