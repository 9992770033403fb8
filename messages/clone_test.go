package messages_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// cloned makes a clone of a filled value of a type; nil if the type has no Clone.
type cloned struct {
	name  string
	typed reflect.Type
	clone func(reflect.Value) reflect.Value
}

func clones[T interface{ Clone() T }]() cloned {
	return cloned{reflect.TypeFor[T]().Name(), reflect.TypeFor[T](),
		func(v reflect.Value) reflect.Value { return reflect.ValueOf(v.Interface().(T).Clone()) }}
}

func plain[T any]() cloned {
	return cloned{name: reflect.TypeFor[T]().Name(), typed: reflect.TypeFor[T]()}
}

// requests are the types that a caller sends, and those of which they are made.
var requests = []cloned{
	clones[messages.ExecCommand](), clones[messages.RunCommand](), clones[messages.WriteStdin](), clones[messages.ReadOutput](),
	clones[messages.AwaitExit](), clones[messages.UpdateEnvironment](), clones[messages.Decide](),
	clones[messages.CommandPolicy](), clones[messages.AdditionalPermissions](), clones[messages.FileSystemPermissions](),
	clones[messages.EnvironmentPolicy](), clones[messages.SandboxPolicy](), clones[messages.Decision](), clones[messages.Poll](), clones[messages.Terminate](),

	plain[messages.CloseStdin](), plain[messages.Resize](), plain[messages.Signal](), plain[messages.RevokeGrant](),
}

// references are where a value points to, by the path of the field.
func references(at string, v reflect.Value, found map[string]uintptr) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Cap() > 0 {
			found[at] = v.Pointer()
		}
	case reflect.Map:
		if !v.IsNil() {
			found[at] = v.Pointer()
		}
	case reflect.Pointer:
		if !v.IsNil() {
			found[at] = v.Pointer()
			references(at, v.Elem(), found)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			references(at+"."+field.Name, value, found)
		}
	}
}

// refers reports whether values of a type can share something.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface, reflect.Chan, reflect.Func:
		return true
	case reflect.Struct:
		for field := range t.Fields() {
			if refers(field.Type) {
				return true
			}
		}
	}
	return false
}

func TestAClonedRequestSharesNothing(t *testing.T) {
	for _, r := range requests {
		if r.clone == nil {
			if refers(r.typed) {
				t.Errorf("a %s has lists, maps or pointers, and no Clone", r.name)
			}
			continue
		}
		t.Run(r.name, rapid.MakeCheck(func(t *rapid.T) {
			v := reflect.New(r.typed).Elem()
			fill(t, v)
			copied := r.clone(v)
			if !reflect.DeepEqual(v.Interface(), copied.Interface()) {
				t.Fatalf("%#v\nis cloned as\n%#v", v, copied)
			}
			own, others := map[string]uintptr{}, map[string]uintptr{}
			references(r.name, v, own)
			references(r.name, copied, others)
			for at, pointer := range own {
				if others[at] == pointer {
					t.Errorf("%s is shared", at)
				}
			}
		}))
	}
}

// A request says in its comment how it is answered, and the tests of clones must know it.
func TestNoRequestIsUnknownToTheTests(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			for _, name := range requestsIn(d) {
				found++
				if !slices.ContainsFunc(requests, func(r cloned) bool { return r.name == name }) {
					t.Errorf("the request %s is missing in the tests' list", name)
				}
			}
		}
	}
	if found < 19 {
		t.Errorf("only %d requests were found", found)
	}
}

// requestsIn are the names of requests that a declaration declares, and of types with a Clone.
func requestsIn(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			doc := strings.Join(strings.Fields(d.Doc.Text()), " ")
			if typed, ok := spec.(*ast.TypeSpec); ok && strings.Contains(doc, "It is answered") {
				names = append(names, typed.Name.Name)
			}
		}
	case *ast.FuncDecl:
		if d.Name.Name == "Clone" && d.Recv != nil {
			names = append(names, d.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	return names
}
