package messages_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// crossing is a type that must come out of JSON as it went in.
type crossing func(*testing.T)

func crosses[T any]() crossing {
	return func(t *testing.T) {
		t.Run(reflect.TypeFor[T]().String(), rapid.MakeCheck(func(t *rapid.T) {
			in := reflect.New(reflect.TypeFor[T]())
			fill(t, in.Elem())
			encoded, err := json.Marshal(in.Interface())
			if err != nil {
				t.Fatal(err)
			}
			out := reflect.New(reflect.TypeFor[T]())
			if err := json.Unmarshal(encoded, out.Interface()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(in.Interface(), out.Interface()) {
				t.Fatalf("in  %#v\nout %#v\nas %s", in.Elem(), out.Elem(), encoded)
			}
		}))
	}
}

// fill sets every field that can be reached to something. Lists and maps are nil instead of empty: JSON leaves both out.
func fill(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()))
		return
	}
	if v.Type() == reflect.TypeFor[messages.ApprovalPolicy]() { // its JSON is one of these, and other ones are errors
		mode := rapid.SampledFrom([]messages.ApprovalMode{messages.Untrusted, messages.OnFailure, messages.OnRequest, messages.Never}).Draw(t, "mode")
		v.Set(reflect.ValueOf(messages.ApprovalPolicy{Mode: mode}))
		if rapid.Bool().Draw(t, "granular") {
			v.Set(reflect.ValueOf(messages.ApprovalPolicy{Mode: messages.Granular,
				Granular: messages.GranularApproval{SandboxApproval: rapid.Bool().Draw(t, "sandbox"), Rules: rapid.Bool().Draw(t, "rules")}}))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "n"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, v.Index(i))
			}
		}
	case reflect.Map:
		if n := rapid.IntRange(0, 3).Draw(t, "n"); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				v.SetMapIndex(reflect.ValueOf(rapid.String().Draw(t, "key")), reflect.ValueOf(rapid.String().Draw(t, "value")))
			}
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Uint8, reflect.Uint16, reflect.Uint64:
		v.SetUint(rapid.Uint64Range(0, 1<<v.Type().Bits()-1).Draw(t, "uint"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	default:
		t.Fatalf("no value for a %v: teach this test about it", v.Type())
	}
}

func TestEverythingCrossesJSON(t *testing.T) {
	for _, check := range []crossing{
		crosses[messages.ExecCommand](), crosses[messages.RunCommand](), crosses[messages.WriteStdin](), crosses[messages.Poll](),
		crosses[messages.CancelWait](), crosses[messages.CloseStdin](), crosses[messages.Resize](), crosses[messages.Signal](),
		crosses[messages.Terminate](), crosses[messages.TerminateAll](), crosses[messages.ListProcesses](),
		crosses[messages.UpdateEnvironment](), crosses[messages.PauseYields](), crosses[messages.ResumeYields](),
		crosses[messages.ReadOutput](), crosses[messages.AwaitExit](),

		crosses[messages.Result](), crosses[messages.RunResult](), crosses[messages.OutputPage](), crosses[messages.Processes](),
		crosses[messages.EndRecord](), crosses[messages.Exits](), crosses[messages.Done](), crosses[messages.Error](),

		crosses[messages.ExecStarted](), crosses[messages.OutputDelta](), crosses[messages.ExecExited](),
		crosses[messages.OutputClosed](), crosses[messages.ExecEnded](), crosses[messages.AttemptEnded](),
		crosses[messages.TerminalInteraction](), crosses[messages.ProcessWarning](), crosses[messages.ExecNotice](), crosses[messages.Gap](),
	} {
		check(t)
	}
}

// Two embedded structs, or a field that hides one of theirs, would silently lose what they share.
func TestEventsTellTheirOriginInJSON(t *testing.T) {
	for kind, event := range events {
		t.Run(string(kind), func(t *testing.T) {
			if event.Kind() != kind {
				t.Errorf("its kind is %s", event.Kind())
			}
			encoded, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			var origin messages.Origin
			if err := json.Unmarshal(encoded, &origin); err != nil {
				t.Fatal(err)
			}
			if origin != event.From() || origin != somewhere {
				t.Errorf("the origin is %+v in %s", origin, encoded)
			}
		})
	}
}

var somewhere = messages.Origin{Session: "s", Process: 1000, Call: "c", At: time.Unix(1, 0).UTC()}

var events = map[messages.EventKind]messages.Event{
	messages.KindExecStarted:  messages.ExecStarted{Origin: somewhere},
	messages.KindOutputDelta:  messages.OutputDelta{Origin: somewhere},
	messages.KindExecExited:   messages.ExecExited{Origin: somewhere},
	messages.KindOutputClosed: messages.OutputClosed{Origin: somewhere},
	messages.KindExecEnded:    messages.ExecEnded{Origin: somewhere},
	messages.KindAttemptEnded: messages.AttemptEnded{Origin: somewhere},
	messages.KindInteraction:  messages.TerminalInteraction{Origin: somewhere},
	messages.KindWarning:      messages.ProcessWarning{Origin: somewhere},
	messages.KindExecNotice:   messages.ExecNotice{Origin: somewhere},
	messages.KindGap:          messages.Gap{Origin: somewhere},

	messages.KindApprovalRequested: messages.ApprovalRequested{Origin: somewhere},
	messages.KindApprovalResolved:  messages.ApprovalResolved{Origin: somewhere},
	messages.KindToolDecision:      messages.ToolDecision{Origin: somewhere},
}

// The names of fields are the wire's: what is stored or sent elsewhere depends on them.
func TestFieldNamesOfAResult(t *testing.T) {
	encoded, err := json.Marshal(messages.Result{Process: 1000, Status: messages.Exited(0), ChunkID: "abc123", Output: []byte("hi")})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"process":1000,"running":false,"status":{"kind":"code","number":0},"chunkId":"abc123","wallTime":0,"output":"aGk=","maxOutputTokens":0}`
	if string(encoded) != want {
		t.Errorf("%s\nwant %s", encoded, want)
	}
}
