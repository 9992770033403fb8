package command

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of the scripts that are looked into.
const (
	maxScript   = 64 << 10 // bytes of one script
	maxOpeners  = 4096     // tokens for which the parser may go one level deeper, about 4 KiB of stack each
	maxCommands = 256      // of one plain script
)

// errUnparsed says that a script is beyond the bounds and was not parsed.
var errUnparsed = errors.New("too long or too deeply nested")

// parseScript parses a script within bounds. With an error there may still be the statements before it.
func parseScript(text string) (*syntax.File, error) {
	if len(text) > maxScript || openers(text) > maxOpeners {
		return nil, errUnparsed
	}
	return syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
}

// openers counts the tokens that can make the parser, which is recursive, go deeper. Of the words only "time" is counted, which nests
// without anything between: the others are too long to do harm in maxScript bytes.
func openers(text string) int {
	tokens := "([{"
	if strings.Contains(text, "((") || strings.Contains(text, "[") || strings.Contains(text, "let") {
		tokens += "!~?=+-*" // there may be arithmetic
	}
	n := strings.Count(text, "time")
	for i := range len(text) {
		if strings.IndexByte(tokens, text[i]) >= 0 {
			n++
		}
	}
	return n
}

// plainScript is a script whose commands are all known.
type plainScript struct {
	commands []plainCommand
	heredoc  bool // one command that reads here-documents
}

// plainCommand is a program with its words.
type plainCommand struct {
	joint   string // the operator between it and the command before: "&&", "||", "|" or ";"; empty for the first
	words   []string
	nulls   []string // its redirections, such as "2>/dev/null", if some lead there
	pattern bool     // the shell puts paths in the place of some of the words
}

// readScript reads a script that is plain, or a single command with here-documents. It understands nothing else, so it does
// not matter what else shells can do.
func readScript(text string) (plainScript, bool) {
	if !scriptText(text) {
		return plainScript{}, false
	}
	file, err := parseScript(text)
	if err != nil || len(file.Stmts) == 0 {
		return plainScript{}, false
	}
	var script plainScript
	for _, statement := range file.Stmts {
		if !script.read(statement, ";") {
			if len(file.Stmts) == 1 && len(statement.Redirs) > 0 {
				return readHeredoc(statement, text)
			}
			return plainScript{}, false
		}
	}
	return script, len(file.Last) == 0 && script.staysPut()
}

// scriptText reports whether every shell reads a script as the same text: UTF-8 without control characters except tab
// and newline.
func scriptText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(text)
}

// read adds the commands of a statement, if the statement is plain.
func (s *plainScript) read(statement *syntax.Stmt, joint string) bool {
	if !simple(statement) || len(statement.Comments) > 0 {
		return false
	}
	switch command := statement.Cmd.(type) {
	case *syntax.CallExpr:
		if len(s.commands) == 0 {
			joint = ""
		}
		if slices.ContainsFunc(statement.Redirs, redirects) || !s.call(command, joint) {
			return false
		}
		s.commands[len(s.commands)-1].nulls = nulls(statement.Redirs)
		return true
	case *syntax.BinaryCmd:
		switch command.Op {
		case syntax.AndStmt, syntax.OrStmt, syntax.Pipe:
			return s.read(command.X, joint) && s.read(command.Y, command.Op.String())
		}
	}
	return false
}

// simple reports whether a statement consists of a command and its redirections, and nothing else.
func simple(s *syntax.Stmt) bool {
	return !s.Negated && !s.Background && !s.Coprocess && !s.Disown
}

// redirects reports whether a redirection leads anywhere other than to /dev/null, to an input that is already at its end,
// or from one of the two outputs to the other.
func redirects(r *syntax.Redirect) bool {
	if r.N != nil && r.N.Value != "1" && r.N.Value != "2" {
		return true
	}
	switch to := r.Word.Lit(); r.Op {
	case syntax.RdrOut:
		return to != "/dev/null"
	case syntax.RdrIn:
		return to != "/dev/null" || r.N != nil
	case syntax.DplOut:
		return to != "1" && to != "2"
	}
	return true
}

// nulls are redirections, in their order, if one of them leads to or from /dev/null.
func nulls(list []*syntax.Redirect) (all []string) {
	null := false
	for _, r := range list {
		text := r.Op.String() + r.Word.Lit()
		if r.N != nil {
			text = r.N.Value + text
		}
		all = append(all, text)
		null = null || r.Op != syntax.DplOut
	}
	if !null {
		return nil
	}
	return all
}

// call adds one command.
func (s *plainScript) call(call *syntax.CallExpr, joint string) bool {
	if len(call.Assigns) > 0 || len(s.commands) == maxCommands {
		return false
	}
	name := call.Args[0].Lit()
	if len(call.Args[0].Parts) != 1 || !plainProgram(name) && !idle[name] {
		return false
	}
	command := plainCommand{joint: joint, words: []string{name}}
	for i, word := range call.Args[1:] {
		text, pattern, ok := plainWord(word)
		if name == "[" && i == len(call.Args)-2 && word.Lit() == "]" {
			pattern = false
		}
		if !ok {
			return false
		}
		command.words = append(command.words, text)
		command.pattern = command.pattern || pattern
	}
	if command.pattern && !safeWithAnyWords(name) || idle[name] && !Idle(command.words) {
		return false
	}
	s.commands = append(s.commands, command)
	return true
}

// staysPut reports whether every program is looked up from the directory in which the script starts. After "cd /tmp", ./x
// is not the ./x that a rule is about.
func (s *plainScript) staysPut() bool {
	moves, relative := false, false
	for _, command := range s.commands {
		name := command.words[0]
		moves = moves || name == "cd"
		relative = relative || strings.Contains(name, "/") && !strings.HasPrefix(name, "/")
	}
	return !moves || !relative
}

// readHeredoc reads one command whose redirections are here-documents, of bare words.
func readHeredoc(statement *syntax.Stmt, text string) (plainScript, bool) {
	call, ok := statement.Cmd.(*syntax.CallExpr)
	if !ok || !simple(statement) {
		return plainScript{}, false
	}
	for _, redirect := range statement.Redirs {
		if !plainHeredoc(redirect, text) {
			return plainScript{}, false
		}
	}
	for _, word := range call.Args {
		if len(word.Parts) != 1 || word.Lit() == "" || strings.Contains(word.Lit(), `\`) {
			return plainScript{}, false
		}
	}
	script := plainScript{heredoc: true}
	if !script.call(call, "") {
		return plainScript{}, false
	}
	command := script.commands[0]
	return script, !command.pattern && !slices.ContainsFunc(command.words, isShell) // a shell would run the text
}

// plainHeredoc reports whether a redirection gives a fixed text to the standard input. Without quotes around the mark
// the shell would replace variables and run substitutions in the text, and join lines before it looks for the mark.
func plainHeredoc(r *syntax.Redirect, script string) bool {
	if r.N != nil || r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc || len(r.Word.Parts) != 1 {
		return false
	}
	mark, quoted := r.Word.Lit(), false
	switch part := r.Word.Parts[0].(type) {
	case *syntax.SglQuoted:
		mark, quoted = part.Value, !part.Dollar
	case *syntax.DblQuoted:
		if inner, literal := innerText(part); literal {
			mark, quoted = inner, !part.Dollar
		}
	}
	if mark == "" || strings.Trim(mark, letters+digits+"_") != "" {
		return false
	}
	return quoted || !strings.ContainsAny(script, "$`\\")
}
