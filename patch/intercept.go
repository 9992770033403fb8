package patch

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/command"
)

// maxHead bounds what stands in front of a here-document, in bytes.
const maxHead = 8 << 10

// Intercepted is a patch that was given as a command.
type Intercepted struct {
	Text string // the patch
	Dir  string // of "cd DIR && apply_patch": as it is written, so perhaps relative to the command's directory; empty: there is none
}

// Intercept finds the patch in a command that is nothing but a call of apply_patch, or applypatch, which no shell has to run. Without one,
// the command is to be run. An error refuses a script that is a patch itself.
func Intercept(request *messages.ExecCommand) (Intercepted, bool, error) {
	if request.Script == "" {
		if len(request.Argv) == 2 && isName(request.Argv[0]) {
			return Intercepted{Text: request.Argv[1]}, true, nil
		}
		return Intercepted{}, false, nil
	}
	if request.Shell != "" && !slices.Contains(command.Shells(), command.ShellName(request.Shell)) {
		return Intercepted{}, false, nil
	}
	script := strings.TrimSpace(request.Script)
	if strings.HasPrefix(script, beginPatch) || strings.HasPrefix(script, "<<") {
		if _, err := Parse(script); err == nil {
			return Intercepted{}, false, refuse("", `this script is a patch; to apply it, call apply_patch with it: ["apply_patch", "<patch>"]`)
		}
	}
	head, text, found := cutHeredoc(script)
	if !found {
		return Intercepted{}, false, nil
	}
	dir, found := readCall(head)
	return Intercepted{Text: text, Dir: dir}, found, nil
}

func isName(word string) bool { return word == "apply_patch" || word == "applypatch" }

// heredoc is the end of the line that begins a here-document.
var heredoc = regexp.MustCompile("^(.*)<<(-?)[ \t]*(?:'([^']+)'|\"([^\"$`\\\\]+)\"|\\\\?([^\\s'\"$`\\\\;&|<>()#]+))[ \t]*\r?$")

// cutHeredoc cuts a script that ends with a here-document into what stands in front of it and its text. Nothing is expanded in the text,
// whether its mark is quoted or not.
func cutHeredoc(script string) (head, text string, found bool) {
	rest := script
	for !found {
		if len(head) > maxHead || rest == "" {
			return "", "", false
		}
		line, more, _ := strings.Cut(rest, "\n")
		rest = more
		match := heredoc.FindStringSubmatch(line)
		if match == nil {
			head += line + "\n"
			continue
		}
		head, found = head+match[1], true
		mark := match[3] + match[4] + match[5]
		lines := strings.Split(rest, "\n")
		if match[2] != "" {
			for i, line := range lines {
				lines[i] = strings.TrimLeft(line, "\t")
			}
		}
		end := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSuffix(line, "\r") == mark })
		switch last := len(lines) - 1; {
		case end < 0 && strings.TrimSpace(lines[last]) == mark: // a shell takes it for text, and a patch has no such text
			lines = lines[:last]
		case end >= 0 && end < last: // more follows
			return "", "", false
		case end >= 0:
			lines = lines[:end]
		}
		text = strings.Join(lines, "\n")
	}
	return head, text, true
}

// readCall reads "apply_patch" and "cd DIR && apply_patch". Nothing in it is expanded; variables may be set to fixed values.
func readCall(head string) (dir string, found bool) {
	control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' } // the parser passes over some
	if len(head) > maxHead || strings.ContainsFunc(head, control) {
		return "", false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(head), "")
	if err != nil || len(file.Stmts) != 1 || len(file.Last) > 0 {
		return "", false
	}
	statement := file.Stmts[0]
	if both, is := statement.Cmd.(*syntax.BinaryCmd); is && both.Op == syntax.AndStmt && bare(statement) {
		words, fixed := fixedWords(both.X)
		if !fixed || len(words) != 2 || words[0] != "cd" || strings.HasPrefix(words[1], "-") {
			return "", false
		}
		dir, statement = words[1], both.Y
	}
	words, fixed := fixedWords(statement)
	return dir, fixed && len(words) == 1 && isName(words[0])
}

// bare reports whether a statement is a command without anything around it.
func bare(s *syntax.Stmt) bool {
	return !s.Negated && !s.Background && !s.Coprocess && !s.Disown && !s.Semicolon.IsValid() && len(s.Redirs) == 0 && len(s.Comments) == 0
}

// fixedWords are the words of a simple command that mean what they say.
func fixedWords(s *syntax.Stmt) (words []string, fixed bool) {
	call, is := s.Cmd.(*syntax.CallExpr)
	if !is || !bare(s) || len(call.Args) == 0 || call.Args[0].Lit() == "" {
		return nil, false
	}
	for _, assign := range call.Assigns {
		if assign.Append || assign.Index != nil || assign.Array != nil {
			return nil, false
		}
		if _, fixed := fixedWord(assign.Value); assign.Value != nil && !fixed {
			return nil, false
		}
	}
	for _, arg := range call.Args {
		word, fixed := fixedWord(arg)
		if !fixed {
			return nil, false
		}
		words = append(words, word)
	}
	return words, true
}

// fixedWord is a word of one part in which no shell expands anything.
func fixedWord(word *syntax.Word) (text string, fixed bool) {
	if word == nil || len(word.Parts) != 1 {
		return "", false
	}
	switch part := word.Parts[0].(type) {
	case *syntax.Lit:
		return part.Value, !strings.ContainsAny(part.Value, `\~*?[]{}^#=`)
	case *syntax.SglQuoted:
		return part.Value, !part.Dollar
	case *syntax.DblQuoted:
		if len(part.Parts) == 0 {
			return "", !part.Dollar
		}
		if literal, is := part.Parts[0].(*syntax.Lit); is && len(part.Parts) == 1 {
			return literal.Value, !part.Dollar && !strings.Contains(literal.Value, `\`)
		}
	}
	return "", false
}
