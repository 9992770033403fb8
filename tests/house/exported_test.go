package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// behind are packages whose types an embedder must not see outside of actors/.
var behind = []string{"actor", "actors", "system"}

// checkExported checks what our packages export: no variables, which anyone could change; no contexts in fields of types,
// because a context is an argument; no actors.
func checkExported(repository fs.FS) ([]string, error) {
	files, err := goFiles(repository)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, file := range files {
		if file.isTest() || strings.Contains(file.dir()+"/", "internal/") || within(file.dir(), "tests") {
			continue
		}
		for _, decl := range file.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && !isPrivate(d.Recv) && !within(file.dir(), "actors") {
					complaints = append(complaints, actorsIn(file, d.Type)...)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					complaints = append(complaints, judgeSpec(file, d.Tok, spec)...)
				}
			}
		}
	}
	return complaints, nil
}

// isPrivate reports whether a receiver's type cannot be named elsewhere.
func isPrivate(receiver *ast.FieldList) bool {
	if receiver == nil || len(receiver.List) == 0 {
		return false
	}
	of := receiver.List[0].Type
	if pointer, is := of.(*ast.StarExpr); is {
		of = pointer.X
	}
	name, is := of.(*ast.Ident)
	return is && !name.IsExported()
}

func judgeSpec(file goFile, kind token.Token, spec ast.Spec) (complaints []string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if kind == token.VAR && name.IsExported() {
				complaints = append(complaints, fmt.Sprintf("%s: anyone can change the variable %s", file.at(name.Pos()), name.Name))
			}
		}
	case *ast.TypeSpec:
		fields, ok := s.Type.(*ast.StructType)
		if !ok || !s.Name.IsExported() {
			return nil
		}
		for _, field := range fields.Fields.List {
			exported := len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported)
			if exported && qualified(field.Type) == "context.Context" {
				complaints = append(complaints, fmt.Sprintf("%s: a context is an argument, not a field", file.at(field.Pos())))
			}
			if exported && !within(file.dir(), "actors") {
				complaints = append(complaints, actorsIn(file, field.Type)...)
			}
		}
	}
	return complaints
}

// qualified returns pkg.Name if the expression is one.
func qualified(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if pkg, ok := s.X.(*ast.Ident); ok {
			return pkg.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// actorsIn finds types of actors in a type.
func actorsIn(file goFile, typed ast.Node) (complaints []string) {
	ast.Inspect(typed, func(node ast.Node) bool {
		if e, ok := node.(ast.Expr); ok {
			if pkg, name, _ := strings.Cut(qualified(e), "."); slices.Contains(behind, pkg) {
				complaints = append(complaints, fmt.Sprintf("%s: %s.%s is no type for an embedder", file.at(e.Pos()), pkg, name))
			}
		}
		return true
	})
	return complaints
}

func TestWhatIsExportedIsForEmbedders(t *testing.T) { passes(t, checkExported) }

func TestWhatIsExportedByMistakeIsFound(t *testing.T) {
	finds(t, checkExported, map[string]string{
		"a/a.go": "package a\nvar Size = 1\nvar small = 2\nconst Big = 3\n" +
			"type Job struct { Ctx context.Context; id *system.PID }\ntype Public struct { ID *system.PID }\ntype private struct { ctx context.Context }\n" +
			"func Find(pid *actor.PID) {}\nfunc find(pid *actor.PID) {}\nfunc (p *private) Find(pid *actor.PID) {}\n",
		"actors/a.go":         "package actors\nfunc Find(pid *system.PID) {}\ntype Public struct { ID *system.PID }\n",
		"a/internal/b/b.go":   "package b\nvar Size = 1\n",
		"a/a_test.go":         "package a\nvar Size = 1\n",
		"tests/soak/state.go": "package soak\ntype Step struct { Ctx context.Context }\n",
	}, "a/a.go:2:5: anyone", "a/a.go:5:19: a context", "a/a.go:6:26: system.PID", "a/a.go:8:16: actor.PID")
}
