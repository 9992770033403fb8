package command

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of a search.
const (
	maxWrapped = 8       // programs around a command
	maxLooks   = 1 << 20 // words, nodes and bytes of scripts looked at, however often
	maxCalled  = 32      // functions and aliases inside of each other
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
	// Unreadable says what a shell would run that the command line does not say; empty if there is nothing of the kind.
	Unreadable string
	// ReadsInput says that a shell would run what is written to the command's own input.
	ReadsInput bool
}

// What is unreadable.
const (
	hiddenText  = "a shell runs a text that is not written in the command"
	hiddenName  = "the name of a command is computed"
	hiddenSet   = "a variable is set whose value a shell runs"
	brokenText  = "the text that a shell runs is not understood"
	endlessText = "it is too long or too deeply nested to be read"
	otherShell  = "it is a script for a shell that is not known"
)

// Search looks for the commands in a command line: anywhere in a script, in texts that are given to a shell in a here-document,
// through a pipe or by eval, and through programs that run their words: sudo, env, nice, timeout, xargs, find -exec, strace, su -c,
// npm exec and the like, one in the other up to eight times. Options of git, docker, podman and kubectl before the subcommand are
// skipped: git -C x push is also git push.
//
// It serves to forbid and to ask. Nothing that it finds may allow a command.
//
// Beyond the bounds the answer errs on the side of caution. A command in more than eight wrappers is dangerous and unreadable, and
// so is one that would take too long to search. A script that is too long to parse is unreadable; it is dangerous if one of its
// lines has the words rm and -f, and any word on each of its lines may begin a command. The same holds for a script with a syntax
// error, because the shell may not see one: zsh has its own syntax, and bash finds some errors only when it gets there.
func Search(argv []string) Survey { return SearchEach([][]string{argv})[0] }

// SearchEach is [Search] for each of several command lines. All together they take no longer than one may.
func SearchEach(lines [][]string) (all []Survey) {
	left := maxLooks
	for _, argv := range lines {
		s := search{left: left}
		s.command(argv, place{scope: newScope(nil, nil)})
		left = s.left
		all = append(all, s.found)
	}
	return all
}

// Open reports whether one of the first words of a command that Search has found is not written down.
func Open(words []string) bool {
	return slices.ContainsFunc(words[:min(len(words), maxWrapped)], func(word string) bool { return strings.Contains(word, unknown) })
}

// search is one search, with the work that it may still do.
type search struct {
	found Survey
	left  int
}

// unknown stands for a part of a word that is not literal; no argument can contain it.
const unknown = "\x00"

// place is where a command stands.
type place struct {
	level   int   // programs around it
	in      input // what it reads
	fed     input // what a process substitution reads that stands among its words
	scope   *scope
	outputs int // substitutions around it whose text is worked out
}

// deeper is the place of the command that a program runs.
func (c place) deeper() place {
	c.level++
	return c
}

// scope is what a script has defined so far.
type scope struct {
	functions map[string]*syntax.FuncDecl
	called    map[*syntax.FuncDecl]bool
	aliases   map[string]string
	active    map[string]bool  // functions and aliases that are being looked at
	params    []string         // $0, $1 and so on; nil: not known
	inputs    map[string]input // that exec or a redirection has opened, by descriptor
}

// newScope is the scope of a shell's script. Functions may be exported to it.
func newScope(from *scope, params []string) *scope {
	sc := &scope{functions: map[string]*syntax.FuncDecl{}, called: map[*syntax.FuncDecl]bool{}, aliases: map[string]string{}, active: map[string]bool{},
		inputs: map[string]input{}, params: params}
	if from != nil {
		sc.functions, sc.called, sc.active = maps.Clone(from.functions), from.called, from.active
		maps.Copy(sc.inputs, from.inputs)
	}
	return sc
}

// spend counts work, and stops the search when there has been too much.
func (s *search) spend(cost, level int) bool {
	if s.left -= cost; level > maxWrapped || s.left < 0 {
		s.found.Dangerous = true
		s.unread(endlessText)
		s.left = -1
	}
	return s.left >= 0
}

// unread notes that something is unreadable. The first reason counts.
func (s *search) unread(why string) {
	if s.found.Unreadable == "" {
		s.found.Unreadable = why
	}
}

// shellScript looks at a script that a shell of its own runs.
func (s *search) shellScript(text string, c place, params []string) {
	if !s.spend(len(c.scope.functions)+len(c.scope.inputs), c.level) { // which are copied
		return
	}
	c.scope = newScope(c.scope, params)
	s.script(text, c)
	for found := true; found && s.spend(len(c.scope.functions), c.level); {
		// Those that nothing here calls, at least by name, and those that they define.
		found = false
		for _, name := range slices.Sorted(maps.Keys(c.scope.functions)) { // so that equal scripts get equal answers
			f := c.scope.functions[name]
			if !c.scope.called[f] && s.left >= 0 {
				found, c.scope.called[f], c.scope.params = true, true, nil
				s.statement(f.Body, c)
			}
		}
	}
}

// placeholder stands in a script for unknown, which a parser would leave out.
const placeholder = "\ue000"

// script looks at every command of a script.
func (s *search) script(text string, c place) {
	if !s.spend(len(text), c.level) {
		return
	}
	if strings.Contains(text, unknown) {
		s.unread(hiddenText)
		text = strings.ReplaceAll(text, unknown, placeholder)
	}
	file, err := parseScript(strings.ToValidUTF8(text, "?"))
	if err != nil {
		s.lines(text, c.level)
	}
	if errors.Is(err, errUnparsed) {
		s.unread(endlessText)
		return
	}
	if err != nil {
		s.unread(brokenText)
	}
	for _, statement := range before(file.Stmts, err) {
		s.statement(statement, c)
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

// statement looks at a statement and all that it consists of.
func (s *search) statement(statement *syntax.Stmt, c place) {
	if !s.spend(1, c.level) {
		return
	}
	for _, r := range statement.Redirs {
		fed := c
		if r.Word != nil && feeds(r.Word) { // echo x > >(sh)
			fed.fed = s.output(&syntax.Stmt{Cmd: statement.Cmd}, c)
		}
		s.inside(r, fed)
	}
	c.in = s.redirected(statement.Redirs, c)
	switch command := statement.Cmd.(type) {
	case nil:
	case *syntax.BinaryCmd:
		s.statement(command.X, c)
		if command.Op == syntax.Pipe || command.Op == syntax.PipeAll {
			c.in = s.output(command.X, c)
		}
		s.statement(command.Y, c)
	case *syntax.FuncDecl:
		for _, name := range append(slices.Clip(command.Names), command.Name) {
			if name != nil {
				c.scope.functions[name.Value] = command
			}
		}
	case *syntax.CallExpr:
		s.call(command, statement.Redirs, c)
	default:
		s.inside(command, c)
	}
}

// inside looks at the statements inside of a node.
func (s *search) inside(node syntax.Node, c place) {
	syntax.Walk(node, func(node syntax.Node) bool {
		switch node := node.(type) {
		case nil:
			return true
		case *syntax.Stmt:
			s.statement(node, c)
			return false
		case *syntax.ProcSubst:
			inner := c
			if node.Op == syntax.CmdOut {
				inner.in = c.fed
			}
			for _, statement := range node.Stmts {
				s.statement(statement, inner)
			}
			return false
		case *syntax.CoprocClause:
			if node.Name != nil && node.Stmt.Cmd == nil { // coproc sh <<< x has no name but a program
				s.statement(&syntax.Stmt{Cmd: &syntax.CallExpr{Args: []*syntax.Word{node.Name}}, Redirs: node.Stmt.Redirs}, c)
				return false
			}
		case *syntax.LetClause:
			for _, expression := range node.Exprs {
				if word, ok := expression.(*syntax.Word); ok {
					s.subscript(s.literal(word, c), c)
				}
			}
		case *syntax.Assign:
			if node.Name != nil && !node.Naked {
				value := ""
				if node.Value != nil {
					value = s.literal(node.Value, c)
				}
				s.assigned(node.Name.Value, value, c)
			}
		}
		return s.spend(1, c.level)
	})
}

// assigned looks at the value of a variable that a shell runs.
func (s *search) assigned(name, value string, c place) {
	switch name {
	case "BASH_ENV":
		if value != "" && value != "/dev/null" {
			s.unread(hiddenSet)
		}
	case "ENV": // also a usual name for "production" and the like
		if strings.Trim(value, letters+digits+"_-") != "" {
			s.unread(hiddenSet)
		}
	case "PROMPT_COMMAND":
		s.script(value, c.deeper())
	case "PS4":
		if strings.Contains(value, unknown) {
			s.unread(hiddenSet)
		} else if strings.ContainsAny(value, "$`") {
			s.script(`: "`+value+`"`, c.deeper())
		}
	}
}

// SetsCode reports whether one of the variables has a value that a shell runs.
func SetsCode(variables map[string]string) bool {
	s := search{left: maxLooks}
	for name, value := range variables {
		s.assigned(name, value, place{scope: newScope(nil, nil)})
	}
	return s.found.Unreadable != "" || len(s.found.Commands) > 0
}

// call looks at a simple command.
func (s *search) call(call *syntax.CallExpr, redirects []*syntax.Redirect, c place) {
	words := s.words(call.Args, c)
	c.fed = hidden
	if len(words) > 0 && filepath.Base(words[0]) == "tee" {
		c.fed = c.in
	}
	s.inside(call, c)
	if len(words) == 0 {
		return
	}
	if words[0] == "exec" && len(words) == 1 && len(redirects) > 0 { // the rest of the script reads from there
		c.scope.inputs["0"] = c.in
	}
	if wild(call.Args[0]) {
		s.unread(hiddenName)
	}
	s.command(words, c)
}

// lines looks at a script that cannot be parsed, line by line: a command may begin at each word of a line. Quotes and backslashes
// inside of words are left out, and continued lines are joined.
func (s *search) lines(text string, level int) {
	text = strings.NewReplacer("\\\n", "", `\`, "", `'`, "", `"`, "").Replace(text)
	for line := range strings.Lines(text) {
		words := strings.FieldsFunc(line, func(r rune) bool { return !strings.ContainsRune(letters+digits+"_./-", r) })
		rm := slices.IndexFunc(words, func(word string) bool { return filepath.Base(word) == "rm" })
		s.found.Dangerous = s.found.Dangerous || rm >= 0 && removesByForce(words[rm+1:])
		for i := range words {
			if !s.spend(1, level) {
				return
			}
			s.found.Commands = append(s.found.Commands, words[i:])
			if stripped, found := withoutGlobals(words[i:]); found && s.spend(len(stripped), level) {
				s.found.Commands = append(s.found.Commands, stripped)
			}
		}
	}
}
