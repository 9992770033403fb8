package messages_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// beside is how many bytes a value keeps alive beside itself.
func beside(t *rapid.T, v reflect.Value) (n int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += beside(t, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			n = int(v.Type().Elem().Size()) + beside(t, v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			n += beside(t, field)
		}
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint64:
	default:
		t.Fatalf("no weight for a %v: teach this test about it", v.Type())
	}
	return n
}

// shorten leaves every list with room to spare.
func shorten(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() != reflect.TypeFor[time.Time]() {
			for _, field := range v.Fields() {
				shorten(field)
			}
		}
	case reflect.Slice:
		v.SetLen(v.Len() - min(1, v.Len()))
	}
}

func TestEveryFieldOfAnEventWeighs(t *testing.T) {
	for kind, event := range events {
		t.Run(string(kind), rapid.MakeCheck(func(t *rapid.T) {
			v := reflect.New(reflect.TypeOf(event)).Elem()
			fill(t, v)
			if rapid.Bool().Draw(t, "shorten") {
				shorten(v)
			}
			if got, want := v.Interface().(messages.Event).Weight(), beside(t, v); got != want {
				t.Fatalf("%d bytes, want %d: %#v", got, want, v)
			}
		}))
	}
}

// A type with a method Kind is an event, and the tests of events must know it.
func TestNoEventIsUnknownToTheTests(t *testing.T) {
	known := map[string]bool{}
	for _, event := range events {
		known[reflect.TypeOf(event).Name()] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			method, ok := d.(*ast.FuncDecl)
			if !ok || method.Recv == nil || method.Name.Name != "Kind" || strings.HasSuffix(name, "_test.go") {
				continue
			}
			found++
			if receiver, ok := method.Recv.List[0].Type.(*ast.Ident); !ok || !known[receiver.Name] {
				t.Errorf("%s: an event is missing in the tests' list", name)
			}
		}
	}
	if found != len(events) {
		t.Errorf("%d events were found, %d are listed", found, len(events))
	}
}

func TestGapSaysWhatWasLost(t *testing.T) {
	for want, gap := range map[string]messages.Gap{
		"lost bytes 1 to 9 of output in 2 events":                         {First: 1, End: 9, Deltas: 2},
		"lost 3 inputs of 5 bytes":                                        {Inputs: 3, InputBytes: 5},
		"lost bytes 1 to 9 of output in 2 events and 1 inputs of 0 bytes": {First: 1, End: 9, Deltas: 2, Inputs: 1},
	} {
		if got := gap.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
