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
	"unsafe"

	"github.com/execbus/execbus/messages"
)

// weighable reports whether Weight knows all kinds of values that a type has.
func weighable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer:
		return weighable(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			if t != reflect.TypeFor[time.Time]() && !weighable(field.Type) {
				return false
			}
		}
		return true
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint64:
		return true
	default:
		return false
	}
}

func TestEveryFieldOfAnEventWeighs(t *testing.T) {
	for kind, event := range events {
		if !weighable(reflect.TypeOf(event)) {
			t.Errorf("an event of the kind %s has a value whose weight is not known", kind)
		}
	}
	origin := messages.Origin{Session: "ab", Process: 1000, Call: "cde"}
	text := int(unsafe.Sizeof(""))
	for want, event := range map[int]messages.Event{
		5:      messages.OutputClosed{Origin: origin},
		5 + 3:  messages.ExecNotice{Origin: origin, Text: "abc"},
		5 + 70: messages.OutputDelta{Origin: origin, Stream: "stdout", Bytes: make([]byte, 10, 64)},
		// A list counts with its whole capacity, and its texts count once more each.
		5 + 4*text + 7: messages.ExecStarted{Origin: origin, Argv: append(make([]string, 0, 4), "abc", "de"), Dir: "/a"},
		5 + int(unsafe.Sizeof(messages.Enforcement{})) + 2*int(unsafe.Sizeof(messages.Missing{})) + 3: messages.AttemptEnded{Origin: origin,
			Enforced: &messages.Enforcement{Missing: append(make([]messages.Missing, 0, 2), messages.Missing{What: "a", Why: "b", Step: "c"})}},
	} {
		if got := messages.Weight(event); got != want {
			t.Errorf("%#v weighs %d bytes, want %d", event, got, want)
		}
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
				t.Errorf("%s: the event %v is missing in the list of the tests, events in json_test.go", name, method.Recv.List[0].Type)
			}
		}
	}
	if found != len(events) {
		t.Errorf("%d events were found, %d are listed", found, len(events))
	}
}

func TestGapSaysWhatWasLost(t *testing.T) {
	for want, gap := range map[string]messages.Gap{
		"lost all output from byte 7 on":                                  {First: 7, End: messages.UnknownEnd, Deltas: 1},
		"lost bytes 1 to 9 of output in 2 events":                         {First: 1, End: 9, Deltas: 2},
		"lost 3 inputs of 5 bytes":                                        {Inputs: 3, InputBytes: 5},
		"lost 4 executions":                                               {Executions: 4},
		"lost 2 connections and 4 executions":                             {Connections: 2, Executions: 4},
		"lost 1 inputs of 5 bytes":                                        {Inputs: 1, InputBytes: 5},
		"lost bytes 1 to 9 of output in 1 events and 1 inputs of 5 bytes": {First: 1, End: 9, Deltas: 1, Inputs: 1, InputBytes: 5},
		"lost bytes 1 to 9 of output in 2 events and 1 inputs of 0 bytes": {First: 1, End: 9, Deltas: 2, Inputs: 1},
	} {
		if got := gap.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
