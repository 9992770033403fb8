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

// Dangerous reports whether a command line removes by force: rm with -f, alone or in a cluster, or --force, before
// "--", anywhere that Search finds it.
//
// It catches accidents, not intent: a program name that is a variable or is put together is not seen.
func Dangerous(argv []string) bool { return Search(argv).Dangerous }

// Survey is the result of a search through a command line.
type Survey struct {
	// Commands are all commands that are written down literally, the command line itself first. A part of a word that is not
	// literal is a NUL, which no word of a program can contain.
	Commands [][]string
	// Dangerous says that one of them removes by force, or that the search stopped at a bound.
	Dangerous bool
}

// Search looks for the commands in a command line: anywhere in a script, and through programs that run their words: sudo,
// doas, env, nice, nohup, timeout, xargs, parallel, flock, chroot, unshare, pkexec, the dynamic loader, stdbuf, setsid, command,
// exec, eval, trap, busybox, find -exec and the like, and shells with -c, one in the other up to eight times.
//
// Beyond the bounds the answer errs on the side of caution. A command in more than eight wrappers is dangerous, and so is
// one that would take too long to search. A script that is too long to parse is dangerous if one of its lines has the words
// rm and -f; any word on each of its lines may begin a command. The same holds for a script with a syntax error, because
// the shell may not see one: zsh has its own syntax, and bash finds some errors only when it gets there.
func Search(argv []string) Survey {
	s := search{left: maxLooks}
	s.command(argv, 0)
	return s.found
}

// search is one search, with the work that it may still do.
type search struct {
	found Survey
	left  int
}

// unknown stands for a part of a word that is not literal; no argument can contain it.
const unknown = "\x00"

// spend counts work, and stops the search when there has been too much.
func (s *search) spend(cost, level int) bool {
	if s.left -= cost; level > maxWrapped || s.left < 0 {
		s.found.Dangerous = true
		s.left = -1
	}
	return s.left >= 0
}

// command looks at one command inside of level others.
func (s *search) command(words []string, level int) {
	if len(words) == 0 || !s.spend(len(words), level) {
		return
	}
	s.found.Commands = append(s.found.Commands, words)
	name, args := filepath.Base(words[0]), words[1:]
	switch name {
	case "rm":
		s.found.Dangerous = s.found.Dangerous || removesByForce(args)
		return
	case "find":
		s.find(args, level)
		return
	case "eval":
		s.script(strings.Join(args, " "), level+1)
		return
	case "trap":
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		if len(args) > 0 {
			s.script(args[0], level+1)
		}
		return
	}
	if isShell(name) {
		if script, found := shellScript(args); found {
			s.script(script, level+1)
		}
		return
	}
	if name == "env" {
		if line, found := splitString(args); found {
			s.script(line, level+1)
			return
		}
	}
	carrier, found := carrierOf(name)
	inner := carrier.carried(args)
	switch {
	case !found:
	case carrier.text:
		s.script(strings.Join(inner, " "), level+1)
	case name == "flock" && len(inner) > 1 && (inner[0] == "-c" || inner[0] == "--command"):
		s.script(inner[1], level+1)
	default:
		s.command(inner, level+1)
	}
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
func (s *search) find(args []string, level int) {
	for i, arg := range args {
		switch arg {
		case "-exec", "-execdir", "-ok", "-okdir":
			rest := args[i+1:]
			if end := slices.Index(rest, ";"); end >= 0 {
				rest = rest[:end]
			}
			s.command(rest, level+1)
		}
	}
}

// script looks at every command of a script.
func (s *search) script(text string, level int) {
	if !s.spend(len(text), level) {
		return
	}
	file, err := parseScript(strings.ToValidUTF8(text, "?"))
	if err != nil {
		s.lines(text, level)
	}
	if errors.Is(err, errUnparsed) {
		return
	}
	for _, statement := range before(file.Stmts, err) {
		syntax.Walk(statement, func(node syntax.Node) bool {
			s.node(node, level)
			return s.left >= 0
		})
	}
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

func (s *search) node(node syntax.Node, level int) {
	switch node := node.(type) {
	case *syntax.CallExpr:
		s.command(literalWords(node.Args), level)
	case *syntax.Stmt:
		call, ok := node.Cmd.(*syntax.CallExpr)
		if !ok || !slices.ContainsFunc(literalWords(call.Args), isShell) {
			return
		}
		for _, redirect := range node.Redirs { // a shell that reads its script from here
			text := redirect.Hdoc
			if redirect.Op == syntax.WordHdoc {
				text = redirect.Word
			}
			if text != nil {
				s.script(literalWord(text), level+1)
			}
		}
	}
}

// lines looks at a script that cannot be parsed, line by line: a command may begin at each word of a line.
func (s *search) lines(text string, level int) {
	for line := range strings.Lines(text) {
		words := strings.FieldsFunc(line, func(r rune) bool { return !strings.ContainsRune(letters+digits+"_./-", r) })
		rm := slices.IndexFunc(words, func(word string) bool { return filepath.Base(word) == "rm" })
		s.found.Dangerous = s.found.Dangerous || rm >= 0 && removesByForce(words[rm+1:])
		for i := range words {
			if !s.spend(1, level) {
				return
			}
			s.found.Commands = append(s.found.Commands, words[i:])
		}
	}
}
