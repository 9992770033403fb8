package messages_test

import (
	"fmt"
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

// cloned makes a clone of a value of a type.
type cloned struct {
	typed reflect.Type
	clone func(reflect.Value) reflect.Value
}

func clones[T any]() cloned {
	return cloned{reflect.TypeFor[T](), func(v reflect.Value) reflect.Value { return reflect.ValueOf(messages.Clone(v.Interface().(T))) }}
}

// requests are the types that a caller sends, and others that are cloned.
var requests = []cloned{
	clones[messages.ExecCommand](), clones[messages.RunCommand](), clones[messages.ApplyPatch](), clones[messages.WriteStdin](), clones[messages.ReadOutput](),
	clones[messages.Wait](), clones[messages.UpdateEnvironment](), clones[messages.Decide](), clones[messages.Decision](),
	clones[messages.AdditionalPermissions](), clones[messages.EnvironmentPolicy](), clones[messages.SandboxPolicy](),
	clones[messages.Poll](), clones[messages.Terminate](), clones[messages.CloseStdin](), clones[messages.TakeKeyboard](), clones[messages.ReturnKeyboard](), clones[messages.Resize](),
	clones[messages.WatchTerminal](), clones[messages.PlaceCursor](),
	clones[messages.Signal](), clones[messages.RevokeGrant](), clones[*messages.SandboxPolicy](),
}

// references are where a value points to, by the path of the field.
func references(at string, v reflect.Value, found map[string]uintptr) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Cap() > 0 {
			found[at] = v.Pointer()
		}
		for i := range v.Len() {
			references(fmt.Sprintf("%s[%d]", at, i), v.Index(i), found)
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

// clonable reports whether Clone knows how to copy all that a type has. inside says that it is in a list or a map.
func clonable(t reflect.Type, inside bool) bool {
	switch t.Kind() {
	case reflect.Slice:
		return !inside && clonable(t.Elem(), t.Elem().Kind() != reflect.Struct)
	case reflect.Map:
		return !inside && clonable(t.Elem(), true)
	case reflect.Pointer:
		return !inside && clonable(t.Elem(), false)
	case reflect.Struct:
		for field := range t.Fields() {
			if !field.IsExported() || !clonable(field.Type, inside) {
				return false
			}
		}
		return true
	default:
		return t.Kind() == reflect.String || t.Kind() <= reflect.Float64
	}
}

func TestAClonedRequestSharesNothing(t *testing.T) {
	for _, r := range requests {
		if !clonable(r.typed, false) {
			t.Errorf("a %s has values that Clone does not know", r.typed)
		}
		t.Run(r.typed.String(), rapid.MakeCheck(func(t *rapid.T) {
			v := reflect.New(r.typed).Elem()
			fill(t, v)
			copied := r.clone(v)
			if !reflect.DeepEqual(v.Interface(), copied.Interface()) {
				t.Fatalf("%#v\nis cloned as\n%#v", v, copied)
			}
			own, others := map[string]uintptr{}, map[string]uintptr{}
			references("it", v, own)
			references("it", copied, others)
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
				if !slices.ContainsFunc(requests, func(r cloned) bool { return r.typed.Name() == name }) {
					t.Errorf("the request %s is missing in the tests' list", name)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d requests were found", found)
	}
}

// requestsIn are the names of requests that a declaration declares.
func requestsIn(d ast.Decl) (names []string) {
	declared, ok := d.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range declared.Specs {
		doc := strings.Join(strings.Fields(declared.Doc.Text()), " ")
		if typed, ok := spec.(*ast.TypeSpec); ok && strings.Contains(doc, "It is answered") {
			names = append(names, typed.Name.Name)
		}
	}
	return names
}
