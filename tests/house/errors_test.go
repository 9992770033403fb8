package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// foreign has text that the sentence of an error must not contain, because not every reader knows it.
var foreign = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile("`[^`]*`"), "names a field of a tool"},
	{regexp.MustCompile(`%T`), "names a Go type"},
	{regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`), "is a word of a wire"},
	{regexp.MustCompile(`\b[A-Za-z]+\.[A-Z]\w*|\b\w*[a-z][A-Z]\w*\b`), "is a Go identifier"},
}

// advised are the codes of errors that somebody can do something about. Their sentences end with advice.
var advised = []string{"InvalidRequest", "UnknownProcess", "NoSuchProgram", "StdinClosed", "LineTooLong", "InputFull", "InputNotTaken",
	"NotATerminal", "WrongState", "Unsupported", "LimitReached", "SlowSubscriber", "WardenLost", "OutputUnretained", "UnknownQuestion",
	"UnknownGrant"}

// teller is a function that puts a parameter of its own into an error's sentence.
type teller struct {
	dir, name string
	argument  int
	code      string // empty: it differs
}

func checkErrors(repository fs.FS) ([]string, error) {
	files, err := goFiles(repository)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, goFile.isTest)
	var complaints []string
	var tellers []teller
	for _, file := range files {
		for _, decl := range file.syntax.Decls {
			function, _ := decl.(*ast.FuncDecl)
			ast.Inspect(decl, func(node ast.Node) bool {
				sentence, code := sentenceOf(file, node)
				if sentence == nil {
					return true
				}
				if i := parameter(function, sentence); i >= 0 {
					tellers = append(tellers, teller{file.dir(), function.Name.Name, i, code})
				}
				complaints = append(complaints, judge(file, sentence, code)...)
				return true
			})
		}
	}
	for _, file := range files {
		complaints = append(complaints, judgeCalls(file, tellers)...)
	}
	return complaints, nil
}

// sentenceOf returns the Detail of an error that is written or set at node, and its code.
func sentenceOf(file goFile, node ast.Node) (sentence ast.Expr, code string) {
	switch n := node.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Detail" && i < len(n.Rhs) {
				return n.Rhs[i], ""
			}
		}
	case *ast.CompositeLit:
		local, isLocal := n.Type.(*ast.Ident)
		other, _ := n.Type.(*ast.SelectorExpr)
		if !(isLocal && local.Name == "Error" && file.dir() == "messages") && (other == nil || other.Sel.Name != "Error") {
			return nil, ""
		}
		for _, element := range n.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			switch key, _ := pair.Key.(*ast.Ident); key.Name {
			case "Detail":
				sentence = pair.Value
			case "Code":
				code = codeName(pair.Value)
			}
		}
	}
	return sentence, code
}

// codeName returns InvalidRequest for messages.ErrInvalidRequest, and "" if the value is not a constant.
func codeName(value ast.Expr) string {
	if selector, ok := value.(*ast.SelectorExpr); ok {
		value = selector.Sel
	}
	if name, ok := value.(*ast.Ident); ok {
		if code, is := strings.CutPrefix(name.Name, "Err"); is {
			return code
		}
	}
	return ""
}

// parameter returns the place of the parameter that a sentence begins with, or -1.
func parameter(function *ast.FuncDecl, sentence ast.Expr) int {
	name, ok := sentence.(*ast.Ident)
	if !ok || function == nil {
		return -1
	}
	i := 0
	for _, field := range function.Type.Params.List {
		for _, parameter := range field.Names {
			if parameter.Name == name.Name {
				return i
			}
			i++
		}
	}
	return -1
}

// judgeCalls judges the sentences that are passed to tellers of the same package.
func judgeCalls(file goFile, tellers []teller) (complaints []string) {
	ast.Inspect(file.syntax, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch function := call.Fun.(type) {
		case *ast.Ident:
			name = function.Name
		case *ast.SelectorExpr:
			name = function.Sel.Name
		}
		for _, t := range tellers {
			if t.dir == file.dir() && t.name == name && t.argument < len(call.Args) {
				complaints = append(complaints, judge(file, call.Args[t.argument], t.code)...)
			}
		}
		return true
	})
	return complaints
}

// judge checks the literal text of a sentence.
func judge(file goFile, sentence ast.Expr, code string) (complaints []string) {
	said := ""
	ast.Inspect(sentence, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, _ := strconv.Unquote(literal.Value)
			said += text
		}
		return true
	})
	for _, f := range foreign {
		if file.dir() == "tools" {
			break // its readers have called the tool by these words
		}
		if found := f.pattern.FindString(said); found != "" {
			complaints = append(complaints, fmt.Sprintf("%s: %q %s: say it in plain words, and the Go way in Hint", file.at(sentence.Pos()), found, f.why))
		}
	}
	if said != "" && slices.Contains(advised, code) && !strings.Contains(said, "; ") && literallyEnds(sentence) {
		complaints = append(complaints, fmt.Sprintf("%s: %q does not end with what anyone can do", file.at(sentence.Pos()), said))
	}
	return complaints
}

// literallyEnds reports whether the end of a sentence is written here.
func literallyEnds(sentence ast.Expr) bool {
	switch e := sentence.(type) {
	case *ast.BinaryExpr:
		return literallyEnds(e.Y)
	case *ast.BasicLit:
		return true
	case *ast.CallExpr: // fmt.Sprintf
		return true
	default:
		return false
	}
}

func TestErrorsCanBeReadByAnyone(t *testing.T) { passes(t, checkErrors) }

func TestErrorsThatNotEverybodyUnderstandsAreFound(t *testing.T) {
	finds(t, checkErrors, map[string]string{
		"a/literal.go": "package a\n" +
			"var a = &messages.Error{Detail: \"set `chars`\"}\n" +
			"var b = &messages.Error{Detail: fmt.Sprintf(\"a %T came\", x), Hint: \"a %T\"}\n" +
			"var c = messages.Error{Detail: \"raise Options.MaxProcesses\", Hint: \"raise Options.MaxProcesses\"}\n" +
			"var d = messages.Error{Detail: \"there is none; set \" + \"yield_time_ms\"}\n" +
			"var e = messages.Error{Detail: \"set maxOutputTokens\"}\n" +
			"var fine = messages.Error{Code: messages.ErrInvalidRequest, Detail: \"it is negative; use zero, a.b or UTF-8\"}\n" +
			"var f = messages.Error{Code: messages.ErrInvalidRequest, Detail: \"it is negative\"}\n" +
			"var g = messages.Error{Code: messages.ErrClosed, Detail: \"it is closed\"}\n" +
			"var h = messages.Other{Detail: \"any_thing\"}\n",
		"a/helper.go": "package a\n" +
			"func bad(field, detail string) error { return &messages.Error{Code: messages.ErrInputFull, Subject: field, Detail: detail} }\n" +
			"func f() { bad(\"NoWait\", \"too much; wait\"); bad(\"x\", \"NoWait\"); s.bad(\"x\", \"full \" + more()); e.Detail = \"snake_case\" }\n",
		"a/literal_test.go":  "package a\nvar a = &messages.Error{Detail: \"set `chars`\"}\n",
		"messages/inside.go": "package messages\nvar a = Error{Detail: \"set NoWait\"}\n",
		"tools/fine.go":      "package tools\nvar a = &messages.Error{Detail: \"`chars` is no_number\"}\n",
		"b/bad.go":           "package b\nfunc f() { bad(\"x\", \"NoWait\") }\ntype Error struct{}\nvar a = Error{Detail: \"set NoWait\"}\n",
	}, "a/literal.go:2:33: \"`chars`\"", "a/literal.go:3:33: \"%T\"", "a/literal.go:4:32: \"Options.MaxProcesses\"",
		"a/literal.go:5:32: \"yield_time_ms\"", "a/literal.go:6:32: \"maxOutputTokens\"", "a/literal.go:8:66: \"it is negative\" does not end",
		"a/helper.go:3:54: \"NoWait\" is a Go", "a/helper.go:3:54: \"NoWait\" does not end", "a/helper.go:3:76: \"full \" does not end",
		"a/helper.go:3:106: \"snake_case\"", "messages/inside.go:2:23: \"NoWait\"")
}
