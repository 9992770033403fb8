package bounded

import (
	"cmp"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"go.starlark.net/syntax"
)

// rewriter replaces what needs a guard in a syntax tree.
type rewriter struct {
	formats int // f-strings that have not been found in the tree
	err     error
}

// maxNesting bounds how deep statements and expressions are inside of each other.
const maxNesting = 200

func (w *rewriter) fail(at syntax.Position, message string) {
	if w.err == nil {
		w.err = syntax.Error{Pos: at, Msg: message}
	}
}

// visit goes through the nodes in a field of a node, and returns how many there are. The field is a list, or an interface
// that holds a node; names and values are neither.
func (w *rewriter) visit(field reflect.Value, depth int) (nodes int) {
	if field.Kind() == reflect.Slice {
		for i := range field.Len() {
			nodes += w.visit(field.Index(i), depth)
		}
	}
	if field.Kind() != reflect.Interface || field.IsNil() || w.err != nil {
		return nodes
	}
	node, ok := field.Interface().(syntax.Node)
	if !ok {
		return nodes
	}
	if depth == maxNesting {
		w.fail(syntax.Start(node), "excessive nesting")
		return nodes
	}
	nodes = 1
	for parts, i := field.Elem().Elem(), 0; i < parts.NumField(); i++ { // its method Fields allocates
		nodes += w.visit(parts.Field(i), depth+1)
	}
	if guarded := w.guard(node, nodes); guarded != nil {
		field.Set(reflect.ValueOf(guarded))
	}
	return nodes
}

// guard returns what replaces a node whose parts have their guards, or nil if it stays.
func (w *rewriter) guard(node syntax.Node, nodes int) syntax.Expr {
	switch n := node.(type) {
	case *syntax.DefStmt: // the frame of a call can be as big as the text of its function
		n.Body = slices.Insert(n.Body, 0, syntax.Stmt(&syntax.ExprStmt{X: read(nodes, number(n.Def, 0))}))
	case *syntax.LambdaExpr: // the guard returns 0, which is false
		n.Body = &syntax.BinaryExpr{X: read(nodes, number(n.Lambda, 0)), OpPos: n.Lambda, Op: syntax.OR, Y: n.Body}
	case *syntax.Literal:
		return w.literal(n)
	case *syntax.DictExpr:
		return read(1, n)
	case *syntax.DictEntry:
		n.Key = read(search, n.Key)
	case *syntax.IndexExpr:
		n.Y = read(search, n.Y)
	case *syntax.SliceExpr:
		n.X = read(1, n.X)
	case *syntax.CallExpr:
		for _, argument := range n.Args {
			if all, ok := argument.(*syntax.UnaryExpr); ok && (all.Op == syntax.STAR || all.Op == syntax.STARSTAR) {
				all.X = read(1, all.X)
			}
		}
		return call("$call", n.Lparen, append([]syntax.Expr{n.Fn}, n.Args...)...)
	case *syntax.BinaryExpr: // EQ stands between the name and the value of an argument
		if n.Op != syntax.AND && n.Op != syntax.OR && n.Op != syntax.EQ {
			return operate(n.OpPos, n.Op, n.X, n.Y)
		}
	case *syntax.AssignStmt:
		if x, ok := n.LHS.(*syntax.Ident); ok && n.Op != syntax.EQ {
			n.RHS = operate(n.OpPos, n.Op, &syntax.Ident{NamePos: x.NamePos, Name: x.Name}, n.RHS)
		} else if n.Op != syntax.EQ {
			w.fail(n.OpPos, n.Op.String()+" needs a name on its left; write x[i] = x[i] + …")
		}
	}
	return nil
}

// literal makes "%s-lint" % (tool,) of f"{tool}-lint", which readText has made a string of bytes. It reads without a regular expression,
// which allocates for each match under the race detector.
func (w *rewriter) literal(n *syntax.Literal) syntax.Expr {
	if _, ok := n.Value.(*big.Int); ok {
		w.fail(n.TokenPos, errNumber.Error())
	}
	if n.Token != syntax.BYTES {
		return nil
	}
	w.formats--
	names := &syntax.TupleExpr{Lparen: n.TokenPos}
	var format strings.Builder
	rest := strings.ReplaceAll(n.Value.(string), "%", "%%")
	for {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			break
		}
		brace, after := rest[at:at+1], rest[at+1:]
		format.WriteString(rest[:at])
		if strings.HasPrefix(after, brace) { // it is text
			format.WriteString(brace)
			rest = after[1:]
			continue
		}
		inside, behind, closed := strings.Cut(after, "}")
		name, how, converted := strings.Cut(inside, "!")
		if brace == "}" || !closed || !isName(name) || converted && how != "r" && how != "s" {
			w.fail(n.TokenPos, "f-string: only a name can be between { and }, with !r or !s after it; "+
				"a brace that is text, or is not closed, is written twice")
			return nil
		}
		names.List = append(names.List, &syntax.Ident{NamePos: n.TokenPos, Name: name})
		format.WriteString("%" + cmp.Or(how, "s"))
		rest = behind
	}
	format.WriteString(rest)
	return operate(n.TokenPos, syntax.PERCENT, &syntax.Literal{Token: syntax.STRING, TokenPos: n.TokenPos, Value: format.String()}, names)
}

func isName(text string) bool {
	for i, r := range text {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return text != ""
}

// operate is $operate(operator, x, y).
func operate(at syntax.Position, operator syntax.Token, x, y syntax.Expr) syntax.Expr {
	return call("$operate", at, number(at, int(operator)), x, y)
}

// read is $read(times, x), which charges for reading x so many times and returns it.
func read(times int, x syntax.Expr) syntax.Expr {
	at := syntax.Start(x)
	return call("$read", at, number(at, times), x)
}

func call(name string, at syntax.Position, arguments ...syntax.Expr) syntax.Expr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: name}, Lparen: at, Args: arguments, Rparen: at}
}

func number(at syntax.Position, n int) syntax.Expr {
	return &syntax.Literal{Token: syntax.INT, TokenPos: at, Value: int64(n)}
}
