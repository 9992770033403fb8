package policy

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/execbus/execbus/messages"
	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Bounds of one rule file. A file that needs more is an error.
const (
	maxSource = 256 << 10 // bytes
	maxRules  = 10_000
	maxSteps  = 500_000 // of the Starlark machine
)

// ParseRules reads one rule file. The name is what errors call it; they also have the line and column.
//
// The language is Starlark with f-strings of the form f"{name}", without load, while and recursion. A file may take
// neither long nor much memory, see the bounds above.
func ParseRules(name string, source []byte) (*Rules, error) {
	if len(source) > maxSource {
		return nil, ruleError(name, place{}, fmt.Sprintf("the file has more than %d bytes; split it", maxSource))
	}
	plain, formats, err := cutFormats(name, source)
	if err != nil {
		return nil, err
	}
	options := &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}
	tree, err := options.Parse(name, plain, 0)
	if err != nil {
		return nil, starlarkError(name, err)
	}
	f := &ruleFile{name: name, work: &work{left: maxWork}}
	rewriter := rewriter{formats: formats, functions: map[place]int{}}
	if err := rewriter.file(tree); err != nil {
		return nil, starlarkError(name, err)
	}
	f.work.functions = rewriter.functions
	known := f.builtins()
	f.work.addTo(known)
	program, err := starlark.FileProgram(tree, known.Has)
	if err != nil {
		return nil, starlarkError(name, err)
	}
	thread := &starlark.Thread{Name: name, Print: func(*starlark.Thread, string) {}}
	thread.SetMaxExecutionSteps(maxSteps)
	if _, err := program.Init(thread, known); err != nil {
		return nil, starlarkError(name, err)
	}
	for _, claim := range f.claims {
		if err := claim.check(f.rules.executables); err != nil {
			return nil, ruleError(name, claim.place, err.Error())
		}
	}
	return &f.rules, nil
}

// maxDetail bounds what an error repeats of a file.
const maxDetail = 500

func ruleError(name string, at place, detail string) error {
	subject := name
	if at.line > 0 {
		subject = fmt.Sprintf("%s:%d:%d", name, at.line, at.column)
	}
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "") + "…"
	}
	return &messages.Error{Code: messages.CodeInvalidRequest, Op: "load rules", Subject: subject, Detail: detail}
}

// starlarkError finds the place in the file, whatever the part of Starlark that complains.
func starlarkError(name string, err error) error {
	if e, ok := errors.AsType[syntax.Error](err); ok {
		return ruleError(name, place{e.Pos.Line, e.Pos.Col}, "starlark error: "+e.Msg)
	}
	if list, ok := errors.AsType[resolve.ErrorList](err); ok && len(list) > 0 {
		return ruleError(name, place{list[0].Pos.Line, list[0].Pos.Col}, "starlark error: "+list[0].Msg)
	}
	detail, at := err.Error(), place{}
	if e, ok := errors.AsType[*starlark.EvalError](err); ok {
		detail = e.Msg
		for i := range e.CallStack {
			if pos := e.CallStack.At(i).Pos; pos.Filename() == name {
				at = place{pos.Line, pos.Col}
				break
			}
		}
	}
	if !strings.HasPrefix(detail, "invalid ") {
		detail = "starlark error: " + detail
	}
	return ruleError(name, at, detail)
}

// rewriter puts the operations of a file that could take long or much memory under guard: each becomes the call of a
// function that counts its cost first. The names of these functions begin with $, so that no file can call or replace
// them.
type rewriter struct {
	formats   map[place]bool // where the literals of f-strings begin
	functions map[place]int  // how big each function is, by the place of its def or lambda
	nodes     int
	depth     int
	err       error
}

// maxNesting bounds the recursion of everything that walks the tree. The parser has a bound of its own, but not for
// chains of operators, calls and indices.
const maxNesting = 200

func (w *rewriter) file(tree *syntax.File) error {
	w.statements(tree.Stmts)
	for at := range w.formats {
		w.fail(place{}, fmt.Sprintf("the f-string at line %d cannot be where it is", at.line))
	}
	return w.err
}

func (w *rewriter) fail(at place, message string) {
	if w.err == nil {
		name := ""
		w.err = syntax.Error{Pos: syntax.MakePosition(&name, at.line, at.column), Msg: message}
	}
}

// enter is to be called with the beginning of whatever nests; what it returns is to be called at the end.
func (w *rewriter) enter(node syntax.Node) (ok bool, leave func()) {
	w.nodes++
	if w.depth++; w.depth > maxNesting {
		w.fail(at(node), "excessive nesting")
	}
	return w.err == nil, func() { w.depth-- }
}

func at(node syntax.Node) place {
	// The usual way, Span, walks down chains without a bound.
	switch n := node.(type) {
	case *syntax.BinaryExpr:
		return place{n.OpPos.Line, n.OpPos.Col}
	case *syntax.CallExpr:
		return place{n.Lparen.Line, n.Lparen.Col}
	case *syntax.DotExpr:
		return place{n.Dot.Line, n.Dot.Col}
	case *syntax.IndexExpr:
		return place{n.Lbrack.Line, n.Lbrack.Col}
	case *syntax.SliceExpr:
		return place{n.Lbrack.Line, n.Lbrack.Col}
	case *syntax.IfStmt:
		return place{n.If.Line, n.If.Col}
	}
	start, _ := node.Span()
	return place{start.Line, start.Col}
}

func isBig(literal *syntax.Literal) bool {
	n, ok := literal.Value.(*big.Int)
	return ok && n.BitLen() > maxBits
}
