package bounded

import (
	"fmt"
	"math/big"
	"reflect"

	"go.starlark.net/syntax"
)

// rewriter replaces what needs a guard in a syntax tree.
type rewriter struct {
	formats   map[Place]bool // where the literals of f-strings begin
	functions map[Place]int  // the size of each function in nodes, by the place of its def or lambda
	nodes     int
	depth     int
	err       error
}

// maxNesting bounds how deep statements and expressions are inside of each other.
const maxNesting = 200

// rewrite returns the size of each function in nodes, by the place of its def or lambda.
func rewrite(tree *syntax.File, formats map[Place]bool) (map[Place]int, error) {
	w := rewriter{formats: formats, functions: map[Place]int{}}
	w.visit(reflect.ValueOf(&tree.Stmts).Elem())
	for at := range w.formats {
		w.fail(syntax.Position{Line: at.Line, Col: at.Column}, "an f-string cannot be here")
	}
	return w.functions, w.err
}

func (w *rewriter) fail(at syntax.Position, message string) {
	if w.err == nil {
		w.err = syntax.Error{Pos: at, Msg: message}
	}
}

// visit goes through the nodes in a field of a node: a list, or an interface that holds one. Names and values are neither.
func (w *rewriter) visit(field reflect.Value) {
	if field.Kind() == reflect.Slice {
		for i := range field.Len() {
			w.visit(field.Index(i))
		}
		return
	}
	if field.Kind() != reflect.Interface || field.IsNil() || w.err != nil {
		return
	}
	node, ok := field.Interface().(syntax.Node)
	if !ok {
		return
	}
	before := w.nodes
	w.nodes++
	if w.depth++; w.depth > maxNesting {
		w.fail(syntax.Start(node), "excessive nesting")
		return
	}
	inner := field.Elem().Elem()
	for i := range inner.NumField() {
		if inner.Type().Field(i).IsExported() {
			w.visit(inner.Field(i))
		}
	}
	w.depth--
	if guarded := w.guard(node, w.nodes-before); guarded != nil && w.err == nil {
		field.Set(reflect.ValueOf(guarded))
	}
}

// guard returns what replaces a node whose parts have their guards, or nil if it stays.
func (w *rewriter) guard(node syntax.Node, size int) syntax.Expr {
	switch n := node.(type) {
	case *syntax.LoadStmt:
		w.fail(n.Load, "load: a rule file cannot load others")
	case *syntax.AssignStmt:
		w.assign(n)
	case *syntax.DefStmt:
		w.functions[Place{n.Def.Line, n.Def.Col}] = size
	case *syntax.LambdaExpr:
		w.functions[Place{n.Lambda.Line, n.Lambda.Col}] = size
	case *syntax.Literal:
		return w.literal(n)
	case *syntax.DictExpr:
		return call("$use", n.Lbrace, n) // an empty one takes half a KiB
	case *syntax.DictEntry:
		n.Key = call("$key", syntax.Start(n.Key), n.Key)
	case *syntax.IndexExpr:
		n.Y = call("$key", syntax.Start(n.Y), n.Y)
	case *syntax.SliceExpr:
		n.X = call("$use", syntax.Start(n.X), n.X)
	case *syntax.CallExpr:
		for _, argument := range n.Args {
			if all, ok := argument.(*syntax.UnaryExpr); ok && (all.Op == syntax.STAR || all.Op == syntax.STARSTAR) {
				all.X = call("$use", syntax.Start(all.X), all.X)
			}
		}
		return call("$call", n.Lparen, append([]syntax.Expr{n.Fn}, n.Args...)...)
	case *syntax.BinaryExpr: // EQ stands between the name and the value of an argument
		if n.Op != syntax.AND && n.Op != syntax.OR && n.Op != syntax.EQ {
			return call("$operate", n.OpPos, number(n.Op, n.OpPos), n.X, n.Y)
		}
	}
	return nil
}

// assign guards x += y as x += $update(…, x, y), which returns y.
func (w *rewriter) assign(s *syntax.AssignStmt) {
	if s.Op == syntax.EQ {
		return
	}
	name, ok := s.LHS.(*syntax.Ident)
	if !ok {
		w.fail(s.OpPos, s.Op.String()+" needs a name on its left; write x[i] = x[i] + …")
		return
	}
	x := &syntax.Ident{NamePos: name.NamePos, Name: name.Name}
	s.RHS = call("$update", s.OpPos, number(s.Op-syntax.PLUS_EQ+syntax.PLUS, s.OpPos), x, s.RHS)
}

func (w *rewriter) literal(e *syntax.Literal) syntax.Expr {
	begin := Place{e.TokenPos.Line, e.TokenPos.Col}
	if n, ok := e.Value.(*big.Int); ok && n.BitLen() > maxBits {
		w.fail(e.TokenPos, errNumber.Error())
	}
	if !w.formats[begin] {
		return nil
	}
	delete(w.formats, begin)
	text, ok := e.Value.(string)
	if !ok {
		w.fail(e.TokenPos, "this cannot be an f-string")
		return nil
	}
	parts, err := formatParts(text)
	if err != nil {
		w.fail(e.TokenPos, fmt.Sprint("f-string: ", err))
	}
	var sum syntax.Expr = &syntax.Literal{Token: syntax.STRING, TokenPos: e.TokenPos, Value: ""}
	for _, part := range parts {
		var next syntax.Expr = &syntax.Literal{Token: syntax.STRING, TokenPos: e.TokenPos, Value: part.text}
		if part.convert != "" {
			name := &syntax.Ident{NamePos: e.TokenPos, Name: part.text}
			next = call("$call", e.TokenPos, &syntax.Ident{NamePos: e.TokenPos, Name: part.convert}, name)
		}
		sum = call("$operate", e.TokenPos, number(syntax.PLUS, e.TokenPos), sum, next)
	}
	w.nodes += len(parts)
	return sum
}

func call(name string, at syntax.Position, arguments ...syntax.Expr) *syntax.CallExpr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: name}, Lparen: at, Args: arguments, Rparen: at}
}

// number is the literal by which a guard gets an operator.
func number(token syntax.Token, at syntax.Position) *syntax.Literal {
	return &syntax.Literal{Token: syntax.INT, TokenPos: at, Value: int64(token)}
}
