package command

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// inputKind is what is known of an input.
type inputKind int

const (
	ownInput    inputKind = iota // that of the command line as a whole
	textInput                    // a text that is written in the command line
	fileInput                    // a file that is named
	hiddenInput                  // something else
)

// input is what a command reads.
type input struct {
	kind inputKind
	text string
	also string // what the text is in a shell whose echo resolves backslashes, if that differs
}

var hidden = input{kind: hiddenInput}

// texts are the text, and what it may be besides.
func (in input) texts() []string {
	if in.also != "" {
		return []string{in.text, in.also}
	}
	return []string{in.text}
}

// readsItself are the names of the file that a command already reads.
var readsItself = wordSet(`/dev/stdin /dev/fd/0 /proc/self/fd/0`)

// file is what a shell reads from a file.
func (s *search) file(name string, c place) input {
	text, substituted := strings.CutPrefix(name, unknown+"<")
	switch {
	case substituted:
		return input{kind: textInput, text: text}
	case name == unknown+"?":
		return hidden
	case readsItself[name]:
		return c.in
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, found := strings.CutPrefix(name, dir); found {
			return c.descriptor(number)
		}
	}
	return input{kind: fileInput} // also if the name is computed
}

// descriptor is what a descriptor reads that was opened earlier.
func (c place) descriptor(number string) input {
	if number == "0" {
		return c.in
	}
	if in, opened := c.scope.inputs[number]; opened {
		return in
	}
	return hidden
}

// redirected is what a command reads. Other descriptors that are opened for reading are noted.
func (s *search) redirected(redirects []*syntax.Redirect, c place) input {
	in := c.in
	if opened, found := c.scope.inputs["0"]; found && in.kind == ownInput {
		in = opened
	}
	for _, r := range redirects {
		number := "0"
		if r.N != nil {
			number = strings.Trim(r.N.Value, "{}")
		}
		to := input{}
		c.in = in
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			to = input{kind: textInput, text: s.document(r, c)}
		case syntax.WordHdoc:
			to = input{kind: textInput, text: s.literal(r.Word, c) + "\n"}
		case syntax.RdrIn, syntax.RdrInOut:
			name := s.literal(r.Word, c)
			switch {
			case name == "/dev/null":
				to = input{kind: textInput}
			case strings.Contains(name, unknown) && !strings.HasPrefix(name, unknown+"<"):
				to = hidden
			default:
				to = s.file(name, c)
			}
		case syntax.DplIn:
			to = c.descriptor(strings.TrimSuffix(s.literal(r.Word, c), "-"))
		default:
			continue
		}
		if number == "0" {
			in = to
		} else {
			c.scope.inputs[number] = to
		}
	}
	return in
}

// document is the text of a here-document as the command gets it. If the mark has quotes the text is literal. Otherwise the shell
// replaces variables and resolves backslashes, but only before dollar signs, backquotes, backslashes and newlines.
func (s *search) document(r *syntax.Redirect, c place) string {
	if r.Hdoc == nil {
		return ""
	}
	literal := slices.ContainsFunc(r.Word.Parts, func(part syntax.WordPart) bool {
		lit, bare := part.(*syntax.Lit)
		return !bare || strings.Contains(lit.Value, `\`)
	})
	var b strings.Builder
	for _, part := range r.Hdoc.Parts {
		lit, bare := part.(*syntax.Lit)
		switch {
		case bare && !s.spend(len(lit.Value), c.level):
			return unknown
		case bare && literal:
			b.WriteString(strings.ReplaceAll(lit.Value, placeholder, unknown))
		case bare:
			unescape(&b, strings.ReplaceAll(lit.Value, placeholder, unknown), inDocument)
		default:
			b.WriteString(s.expanded(part, c))
		}
	}
	text := b.String()
	if r.Op == syntax.DashHdoc {
		lines := strings.SplitAfter(text, "\n")
		for i := range lines {
			lines[i] = strings.TrimLeft(lines[i], "\t")
		}
		text = strings.Join(lines, "")
	}
	return text
}

// maxOutputs bounds the substitutions inside of each other whose text is worked out.
const maxOutputs = 8

// output is what a statement writes, if that is written in it. Redirections of the output are not looked at: in zsh it goes to both
// places.
func (s *search) output(statement *syntax.Stmt, c place) input {
	if c.outputs++; c.outputs > maxOutputs || !s.spend(1, c.level) {
		return hidden
	}
	c.in = s.redirected(statement.Redirs, c)
	switch command := statement.Cmd.(type) {
	case *syntax.CallExpr:
		if len(command.Args) > 0 {
			return s.writes(s.words(command.Args, c), c)
		}
	case *syntax.BinaryCmd:
		if command.Op == syntax.Pipe || command.Op == syntax.PipeAll {
			c.in = s.output(command.X, c)
			return s.output(command.Y, c)
		}
		return s.outputs([]*syntax.Stmt{command.X, command.Y}, c)
	case *syntax.Block:
		return s.outputs(command.Stmts, c)
	case *syntax.Subshell:
		return s.outputs(command.Stmts, c)
	case *syntax.TimeClause:
		if command.Stmt != nil {
			return s.output(command.Stmt, c)
		}
	}
	return hidden
}

// outputs is what statements write one after the other.
func (s *search) outputs(statements []*syntax.Stmt, c place) input {
	var text, also strings.Builder
	differs := false
	for _, statement := range statements {
		out := s.output(statement, c)
		if out.kind != textInput {
			return hidden
		}
		texts := out.texts()
		text.WriteString(out.text)
		also.WriteString(texts[len(texts)-1])
		differs = differs || out.also != ""
	}
	all := input{kind: textInput, text: text.String()}
	if differs {
		all.also = also.String()
	}
	return all
}

// writesNothing are commands that write nothing.
var writesNothing = wordSet(`: cd false set shopt sleep true umask unset`)

// writes is what a command writes.
func (s *search) writes(words []string, c place) input {
	for range maxWrapped {
		if len(words) == 0 {
			return hidden
		}
		carrier, found := carrierOf(filepath.Base(words[0]))
		if !found || carrier.text || carrier.code != nil {
			break
		}
		words = carrier.carried(words[1:])
	}
	if len(words) == 0 {
		return hidden
	}
	name, args := filepath.Base(words[0]), words[1:]
	if f, function := c.scope.functions[words[0]]; function && !c.scope.active[words[0]] {
		c.scope.active[words[0]] = true
		defer delete(c.scope.active, words[0])
		return s.output(f.Body, c)
	}
	switch {
	case writesNothing[name]:
		return input{kind: textInput}
	case name == "echo" || name == "print":
		end := "\n"
		for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neEr") == "" {
			if strings.Contains(args[0], "n") {
				end = ""
			}
			args = args[1:]
		}
		return written(strings.Join(args, " "), end)
	case name == "printf":
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		return s.printed(args, c)
	case name == "cat" || name == "tee":
		if name == "tee" || len(args) == 0 {
			return ifText(c.in)
		}
		var text strings.Builder
		for _, arg := range args {
			in := c.in
			if arg != "-" {
				in = s.file(arg, c)
			}
			if in.kind != textInput || !s.spend(len(in.text), c.level) {
				return hidden
			}
			text.WriteString(in.text)
		}
		return input{kind: textInput, text: text.String()}
	}
	return hidden
}

// ifText is an input whose text is written in the command; for a shell behind a pipe every other is hidden.
func ifText(in input) input {
	if in.kind != textInput {
		return hidden
	}
	return in
}

// written is what echo writes: in some shells it resolves backslashes.
func written(text, end string) input {
	out := input{kind: textInput, text: text + end}
	if resolved := escapes(text); resolved != text {
		out.also = resolved + end
	}
	return out
}

// wide is a directive of a format that fills up to more than 99 characters, or to as many as a word says.
var wide = regexp.MustCompile(`%[-+ #0]*[0-9.]*([0-9]{3}|\*)`)

// printed is what printf writes. It uses its format as often as there are words.
func (s *search) printed(args []string, c place) input {
	if len(args) == 0 || strings.Contains(args[0], unknown) || wide.MatchString(args[0]) {
		return hidden
	}
	format, args := args[0], append([]string{}, args[1:]...)
	var b strings.Builder
	for range maxLists {
		text, used, err := expand.Format(&expand.Config{}, format, args)
		if err != nil || !s.spend(len(text), c.level) {
			return hidden
		}
		b.WriteString(text)
		if args = args[min(used, len(args)):]; len(args) == 0 || used == 0 {
			return input{kind: textInput, text: b.String()}
		}
	}
	return hidden
}

// escapes resolves backslashes as echo -e does.
func escapes(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	resolved, _, err := expand.Format(&expand.Config{}, text, nil)
	if err != nil {
		return text
	}
	return resolved
}

// feeds reports whether a word is a process substitution that reads.
func feeds(word *syntax.Word) bool {
	return slices.ContainsFunc(word.Parts, func(part syntax.WordPart) bool {
		substitution, ok := part.(*syntax.ProcSubst)
		return ok && substitution.Op == syntax.CmdOut
	})
}

// wild reports whether the shell replaces a word by the names of files.
func wild(word *syntax.Word) bool {
	if text := word.Lit(); text == "[" || text == "[[" {
		return false
	}
	return slices.ContainsFunc(word.Parts, func(part syntax.WordPart) bool {
		lit, bare := part.(*syntax.Lit)
		if !bare {
			_, extended := part.(*syntax.ExtGlob)
			return extended
		}
		for c, escaped := range unescaped(lit.Value, anywhere) {
			if !escaped && strings.IndexByte("*?[", c) >= 0 {
				return true
			}
		}
		return false
	})
}

// maxBraces bounds the words that one word with braces becomes.
const maxBraces = 64

// words are words as the program gets them. A part that is not written down is unknown.
func (s *search) words(words []*syntax.Word, c place) []string {
	var all []string
	for _, word := range words {
		if len(word.Parts) == 1 {
			if list, found := s.list(word.Parts[0], c); found {
				if !s.build(list, c) {
					return append(all, unknown)
				}
				all = append(all, list...)
				continue
			}
		}
		braces := &syntax.Word{Parts: slices.Clone(word.Parts)}
		if !strings.Contains(word.Lit(), "{") && len(word.Parts) == 1 || !syntax.SplitBraces(braces) {
			all = append(all, s.literal(word, c))
			continue
		}
		n := 0
		for one, err := range expand.BracesSeq(&expand.Config{}, braces) {
			if n++; err != nil || n > maxBraces || !s.spend(1, c.level) {
				all = append(all, unknown)
				break
			}
			all = append(all, s.literal(one, c))
		}
	}
	return all
}

// list is the list of words that "$@" and an unquoted substitution stand for.
func (s *search) list(part syntax.WordPart, c place) (words []string, found bool) {
	switch part := part.(type) {
	case *syntax.CmdSubst:
		if out := s.outputs(part.Stmts, c); out.kind == textInput && !strings.Contains(out.text, unknown) && len(part.Stmts) > 0 {
			return strings.Fields(out.text), true
		}
	case *syntax.ParamExp:
		return c.arguments(part)
	case *syntax.DblQuoted:
		if len(part.Parts) == 1 {
			if parameter, ok := part.Parts[0].(*syntax.ParamExp); ok && parameter.Param != nil && parameter.Param.Value == "@" {
				return c.arguments(parameter)
			}
		}
	}
	return nil, false
}

// arguments are the words that $@ or $* stands for.
func (c place) arguments(p *syntax.ParamExp) (words []string, found bool) {
	if !bare(p) || p.Param.Value != "@" && p.Param.Value != "*" || c.scope.params == nil {
		return nil, false
	}
	return c.scope.params[min(1, len(c.scope.params)):], true
}

// bare reports whether a parameter stands for its value and nothing else.
func bare(p *syntax.ParamExp) bool {
	return p.Param != nil && p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet && p.NestedParam == nil && p.Index == nil &&
		len(p.Modifiers) == 0 && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}

// build counts the work of putting words into a text or a list.
func (s *search) build(words []string, c place) bool {
	cost := len(words)
	for _, word := range words {
		cost += len(word)
	}
	return s.spend(cost, c.level)
}

// literal is a word as the program gets it.
func (s *search) literal(word *syntax.Word, c place) string {
	var b strings.Builder
	for _, part := range word.Parts {
		b.WriteString(s.expanded(part, c))
	}
	return b.String()
}

// expanded is a part of a word as the program gets it. A file that is a process substitution becomes unknown and "<" and its text,
// or unknown and "?".
func (s *search) expanded(part syntax.WordPart, c place) string {
	var b strings.Builder
	switch part := part.(type) {
	case *syntax.Lit:
		if !s.spend(len(part.Value), c.level) {
			return unknown
		}
		unescape(&b, strings.ReplaceAll(part.Value, placeholder, unknown), anywhere)
	case *syntax.SglQuoted:
		if !s.spend(len(part.Value), c.level) {
			return unknown
		}
		text := strings.ReplaceAll(part.Value, placeholder, unknown)
		if part.Dollar {
			return escapes(text)
		}
		return text
	case *syntax.DblQuoted:
		for _, inner := range part.Parts {
			if lit, bare := inner.(*syntax.Lit); bare {
				if !s.spend(len(lit.Value), c.level) {
					return unknown
				}
				unescape(&b, strings.ReplaceAll(lit.Value, placeholder, unknown), inQuotes)
			} else {
				b.WriteString(s.expanded(inner, c))
			}
		}
	case *syntax.CmdSubst:
		if out := s.outputs(part.Stmts, c); out.kind == textInput && len(part.Stmts) > 0 && s.spend(len(out.text), c.level) {
			return strings.TrimRight(out.text, "\n")
		}
		return unknown
	case *syntax.ProcSubst:
		if part.Op == syntax.CmdOut {
			return unknown
		}
		if out := s.outputs(part.Stmts, c); out.kind == textInput && s.spend(len(out.text), c.level) {
			return unknown + "<" + out.text
		}
		return unknown + "?"
	case *syntax.ParamExp:
		if words, found := c.arguments(part); found {
			if !s.build(words, c) {
				return unknown
			}
			return strings.Join(words, " ")
		}
		if !bare(part) || c.scope.params == nil || len(part.Param.Value) != 1 || !strings.Contains(digits, part.Param.Value) {
			return unknown
		}
		if n := int(part.Param.Value[0] - '0'); n < len(c.scope.params) {
			if !s.build(c.scope.params[n:n+1], c) {
				return unknown
			}
			return c.scope.params[n]
		}
	default:
		return unknown
	}
	return b.String()
}
