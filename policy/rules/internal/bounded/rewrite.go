package bounded

import (
	"fmt"
	"math/big"
	"strings"

	"go.starlark.net/syntax"
)

// rewriter guards the operations of a file that could take long or use much memory: each becomes the call of a function
// that first charges for it. The names of these functions begin with $, so that no file can call or replace them.
type rewriter struct {
	formats   map[Place]bool // where the literals of f-strings begin
	functions map[Place]int  // the size of each function in nodes, by the place of its def or lambda
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
		w.fail(Place{}, fmt.Sprintf("the f-string at line %d cannot be where it is", at.Line))
	}
	return w.err
}

func (w *rewriter) fail(at Place, message string) {
	if w.err == nil {
		name := ""
		w.err = syntax.Error{Pos: syntax.MakePosition(&name, at.Line, at.Column), Msg: message}
	}
}

// enter must be called at the beginning of every node that nests; the function that it returns must be called at the end.
func (w *rewriter) enter(node syntax.Node) (ok bool, leave func()) {
	w.nodes++
	if w.depth++; w.depth > maxNesting {
		w.fail(at(node), "excessive nesting")
	}
	return w.err == nil, func() { w.depth-- }
}

func at(node syntax.Node) Place {
	// The usual way, Span, walks down chains without a bound.
	switch n := node.(type) {
	case *syntax.BinaryExpr:
		return Place{n.OpPos.Line, n.OpPos.Col}
	case *syntax.CallExpr:
		return Place{n.Lparen.Line, n.Lparen.Col}
	case *syntax.DotExpr:
		return Place{n.Dot.Line, n.Dot.Col}
	case *syntax.IndexExpr:
		return Place{n.Lbrack.Line, n.Lbrack.Col}
	case *syntax.SliceExpr:
		return Place{n.Lbrack.Line, n.Lbrack.Col}
	case *syntax.IfStmt:
		return Place{n.If.Line, n.If.Col}
	}
	start, _ := node.Span()
	return Place{start.Line, start.Col}
}

func isBig(literal *syntax.Literal) bool {
	n, ok := literal.Value.(*big.Int)
	return ok && n.BitLen() > maxBits
}

func (w *rewriter) statements(list []syntax.Stmt) {
	for _, statement := range list {
		w.statement(statement)
	}
}

func (w *rewriter) statement(statement syntax.Stmt) {
	ok, leave := w.enter(statement)
	defer leave()
	if !ok {
		return
	}
	switch s := statement.(type) {
	case *syntax.AssignStmt:
		w.assign(s)
	case *syntax.DefStmt:
		before := w.nodes
		w.parameters(s.Params)
		w.statements(s.Body)
		w.functions[Place{s.Def.Line, s.Def.Col}] = w.nodes - before
	case *syntax.ExprStmt:
		s.X = w.expression(s.X)
	case *syntax.ForStmt:
		w.target(s.Vars)
		s.X = w.expression(s.X)
		w.statements(s.Body)
	case *syntax.IfStmt:
		s.Cond = w.expression(s.Cond)
		w.statements(s.True)
		w.statements(s.False)
	case *syntax.ReturnStmt:
		s.Result = w.expression(s.Result)
	case *syntax.BranchStmt:
	case *syntax.LoadStmt:
		w.fail(at(s), "load: a rule file cannot load others")
	default:
		w.fail(at(s), "a rule file cannot have this statement")
	}
}

// assign turns x += y into x = $update(+=, x, y).
func (w *rewriter) assign(s *syntax.AssignStmt) {
	s.RHS = w.expression(s.RHS)
	if s.Op == syntax.EQ {
		w.target(s.LHS)
		return
	}
	name, ok := s.LHS.(*syntax.Ident)
	if !ok {
		w.fail(Place{s.OpPos.Line, s.OpPos.Col}, s.Op.String()+" needs a name on its left; write x[i] = x[i] + …")
		return
	}
	x := &syntax.Ident{NamePos: name.NamePos, Name: name.Name}
	s.RHS = guarded("$update", s.OpPos, number(s.Op, s.OpPos), x, s.RHS)
	s.Op = syntax.EQ
}

// target is the target of an assignment.
func (w *rewriter) target(e syntax.Expr) {
	ok, leave := w.enter(e)
	defer leave()
	if !ok {
		return
	}
	switch e := e.(type) {
	case *syntax.Ident, *syntax.DotExpr:
	case *syntax.IndexExpr:
		e.X, e.Y = w.expression(e.X), w.key(e.Y)
	case *syntax.ListExpr:
		for _, element := range e.List {
			w.target(element)
		}
	case *syntax.TupleExpr:
		for _, element := range e.List {
			w.target(element)
		}
	case *syntax.ParenExpr:
		w.target(e.X)
	default:
		w.fail(at(e), "a rule file cannot assign to this")
	}
}

// parameters are names, stars, and names with a default.
func (w *rewriter) parameters(list []syntax.Expr) {
	w.nodes += len(list)
	for _, parameter := range list {
		if e, ok := parameter.(*syntax.BinaryExpr); ok {
			e.Y = w.expression(e.Y)
		}
	}
}

func (w *rewriter) expressions(list []syntax.Expr) {
	for i := range list {
		list[i] = w.expression(list[i])
	}
}

func (w *rewriter) expression(expression syntax.Expr) syntax.Expr {
	if expression == nil {
		return nil
	}
	ok, leave := w.enter(expression)
	defer leave()
	if !ok {
		return expression
	}
	switch e := expression.(type) {
	case *syntax.Ident:
	case *syntax.Literal:
		return w.literal(e)
	case *syntax.ParenExpr:
		e.X = w.expression(e.X)
	case *syntax.ListExpr:
		w.expressions(e.List)
	case *syntax.TupleExpr:
		w.expressions(e.List)
	case *syntax.DictExpr:
		w.expressions(e.List)
		return guarded("$use", e.Lbrace, e) // an empty one takes half a KiB
	case *syntax.DictEntry:
		e.Key, e.Value = w.key(e.Key), w.expression(e.Value)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = w.expression(e.Cond), w.expression(e.True), w.expression(e.False)
	case *syntax.DotExpr:
		e.X = w.expression(e.X)
	case *syntax.IndexExpr:
		e.X, e.Y = w.expression(e.X), w.key(e.Y)
	case *syntax.SliceExpr:
		e.X, e.Lo, e.Hi, e.Step = w.used(e.X), w.expression(e.Lo), w.expression(e.Hi), w.expression(e.Step)
	case *syntax.LambdaExpr:
		before := w.nodes
		w.parameters(e.Params)
		e.Body = w.expression(e.Body)
		w.functions[Place{e.Lambda.Line, e.Lambda.Col}] = w.nodes - before
	case *syntax.Comprehension:
		w.comprehension(e)
	case *syntax.CallExpr:
		return w.call(e)
	case *syntax.UnaryExpr:
		e.X = w.expression(e.X)
	case *syntax.BinaryExpr:
		e.X, e.Y = w.expression(e.X), w.expression(e.Y)
		if e.Op != syntax.AND && e.Op != syntax.OR {
			return guarded("$operate", e.OpPos, number(e.Op, e.OpPos), e.X, e.Y)
		}
	default:
		w.fail(at(e), "a rule file cannot have this expression")
	}
	return expression
}

// key is an expression whose value may be looked for in a dict.
func (w *rewriter) key(e syntax.Expr) syntax.Expr {
	return guarded("$key", syntax.Position{}, w.expression(e))
}

// used is an expression whose value is read as a whole: copied or unpacked.
func (w *rewriter) used(e syntax.Expr) syntax.Expr {
	e = w.expression(e)
	if _, literal := e.(*syntax.Literal); literal || e == nil {
		return e
	}
	return guarded("$use", syntax.Position{}, e)
}

func (w *rewriter) comprehension(e *syntax.Comprehension) {
	for _, clause := range e.Clauses {
		switch c := clause.(type) {
		case *syntax.ForClause:
			w.target(c.Vars)
			c.X = w.expression(c.X)
		case *syntax.IfClause:
			c.Cond = w.expression(c.Cond)
		}
	}
	e.Body = w.expression(e.Body)
}

// call turns f(x) into $call(f, x).
func (w *rewriter) call(e *syntax.CallExpr) syntax.Expr {
	arguments := []syntax.Expr{w.expression(e.Fn)}
	for _, argument := range e.Args {
		switch a := argument.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ { // name=value
				a.Y = w.expression(a.Y)
				arguments = append(arguments, a)
				continue
			}
		case *syntax.UnaryExpr:
			if a.Op == syntax.STAR || a.Op == syntax.STARSTAR {
				a.X = w.used(a.X)
				arguments = append(arguments, a)
				continue
			}
		}
		arguments = append(arguments, w.expression(argument))
	}
	return guarded("$call", e.Lparen, arguments...)
}

// literal turns an f-string into a call that joins its values, and refuses huge numbers.
func (w *rewriter) literal(e *syntax.Literal) syntax.Expr {
	begin := Place{e.TokenPos.Line, e.TokenPos.Col}
	if isBig(e) {
		w.fail(begin, "the number is too big")
	}
	if !w.formats[begin] {
		return e
	}
	delete(w.formats, begin)
	text, ok := e.Value.(string)
	if !ok {
		w.fail(begin, "this cannot be an f-string")
		return e
	}
	parts, err := formatParts(text)
	if err != nil {
		w.fail(begin, "f-string: "+err.Error())
		return e
	}
	var arguments []syntax.Expr
	for _, part := range parts {
		name := &syntax.Ident{NamePos: e.TokenPos, Name: part.text}
		switch {
		case !part.name:
			arguments = append(arguments, &syntax.Literal{Token: syntax.STRING, TokenPos: e.TokenPos, Value: part.text})
		case part.quoted:
			arguments = append(arguments, guarded("$repr", e.TokenPos, name))
		default:
			arguments = append(arguments, name)
		}
	}
	w.nodes += strings.Count(text, "{")
	return guarded("$join", e.TokenPos, arguments...)
}

func guarded(name string, at syntax.Position, arguments ...syntax.Expr) *syntax.CallExpr {
	if !at.IsValid() && len(arguments) > 0 {
		at, _ = arguments[0].Span()
	}
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: name}, Lparen: at, Args: arguments, Rparen: at}
}

func number(token syntax.Token, at syntax.Position) *syntax.Literal {
	return &syntax.Literal{Token: syntax.INT, TokenPos: at, Value: int64(token)}
}
