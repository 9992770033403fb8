package messages_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
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
		mode := rapid.SampledFrom([]messages.ApprovalMode{messages.ApproveUntrusted, messages.ApproveOnFailure, messages.ApproveOnRequest, messages.ApproveNever}).Draw(t, "mode")
		v.Set(reflect.ValueOf(messages.ApprovalPolicy{Mode: mode}))
		if rapid.Bool().Draw(t, "granular") {
			v.Set(reflect.ValueOf(messages.ApprovalPolicy{Mode: messages.ApproveGranular,
				Granular: messages.GranularApproval{SandboxApproval: rapid.Bool().Draw(t, "sandbox"), Rules: rapid.Bool().Draw(t, "rules")}}))
		}
		return
	}
	if v.Type() == reflect.TypeFor[netip.AddrPort]() {
		if rapid.Bool().Draw(t, "address") {
			v.Set(reflect.ValueOf(netip.MustParseAddrPort("192.0.2.1:443")))
		}
		return
	}
	if v.Type() == reflect.TypeFor[messages.ExitStatus]() { // and so is its
		v.Set(reflect.ValueOf(rapid.OneOf(rapid.Just(messages.StatusNone()), rapid.Map(rapid.Int(), messages.StatusExited),
			rapid.Map(rapid.Int(), func(n int) messages.ExitStatus { return messages.StatusSignaled(syscall.Signal(n)) })).Draw(t, "status")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for described, field := range v.Fields() {
			if described.Tag.Get("json") != "-" {
				fill(t, field)
			}
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
		crosses[messages.ExecCommand](), crosses[messages.RunCommand](), crosses[messages.ApplyPatch](), crosses[messages.PatchResult](), crosses[messages.WriteStdin](), crosses[messages.Poll](),
		crosses[messages.CloseStdin](), crosses[messages.TakeKeyboard](), crosses[messages.ReturnKeyboard](), crosses[messages.Resize](), crosses[messages.Signal](), crosses[messages.Terminate](),
		crosses[messages.UpdateEnvironment](), crosses[messages.ReadOutput](), crosses[messages.Wait](), crosses[messages.WatchTerminal](), crosses[messages.PlaceCursor](),
		crosses[messages.Decide](), crosses[messages.RevokeGrant](), crosses[messages.Questions](), crosses[messages.Grants](),

		crosses[messages.Result](), crosses[messages.RunResult](), crosses[messages.OutputPage](), crosses[messages.Processes](),
		crosses[messages.EndRecord](), crosses[messages.Wakeups](), crosses[messages.Error](),

		crosses[messages.ExecStarted](), crosses[messages.OutputDelta](), crosses[messages.ExecExited](),
		crosses[messages.OutputClosed](), crosses[messages.ExecEnded](), crosses[messages.AttemptEnded](),
		crosses[messages.TerminalInteraction](), crosses[messages.ProcessWarning](), crosses[messages.ExecNotice](), crosses[messages.Gap](), crosses[messages.CaughtUp](),
	} {
		check(t)
	}
}

// Two embedded structs, or a field that hides one of theirs, would silently lose what they share.
func TestEventsTellTheirKindAndOriginInJSON(t *testing.T) {
	for kind, event := range events {
		t.Run(string(kind), rapid.MakeCheck(func(t *rapid.T) {
			filled := reflect.New(reflect.TypeOf(event)).Elem()
			fill(t, filled)
			in := filled.Interface().(messages.Event)
			encoded, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			var head struct {
				Kind messages.EventKind `json:"kind"`
				messages.Origin
			}
			if err := json.Unmarshal(encoded, &head); err != nil {
				t.Fatal(err)
			}
			if head.Kind != kind || in.Kind() != kind || head.Origin != in.From() {
				t.Fatalf("kind and origin are %+v in %s", head, encoded)
			}
			out, err := messages.UnmarshalEvent(encoded)
			if err != nil || !reflect.DeepEqual(out, in) {
				t.Fatalf("%+v (%v)\nwant %+v\nas %s", out, err, in, encoded)
			}
		}))
	}
}

func TestWhatIsNoEventIsNotRead(t *testing.T) {
	for _, text := range []string{``, `{}`, `[]`, `{"kind":"coffee"}`, `{"kind":"gap","first":"a"}`} {
		if event, err := messages.UnmarshalEvent([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, event)
		}
	}
}

// A number of seconds and one of nanoseconds look the same.
func TestDurationsInJSONSayTheirUnit(t *testing.T) {
	var check func(reflect.Type)
	seen := map[reflect.Type]bool{}
	check = func(typed reflect.Type) {
		switch typed.Kind() {
		case reflect.Pointer, reflect.Slice:
			check(typed.Elem())
		case reflect.Struct:
			if seen[typed] {
				return
			}
			seen[typed] = true
			for field := range typed.Fields() {
				kind := field.Type
				if kind.Kind() == reflect.Pointer {
					kind = kind.Elem()
				}
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if kind == reflect.TypeFor[time.Duration]() && !strings.HasSuffix(name, "Ns") {
					t.Errorf("%v.%s is called %q", typed, field.Name, name)
				}
				check(field.Type)
			}
		}
	}
	for _, r := range requests {
		check(r.typed)
	}
	for _, event := range events {
		check(reflect.TypeOf(event))
	}
	check(reflect.TypeFor[messages.Result]())
	check(reflect.TypeFor[messages.RunResult]())
	check(reflect.TypeFor[messages.Error]())
}

func TestSignalsHaveNamesInJSON(t *testing.T) {
	for want, value := range map[string]any{
		`{"process":1000,"signal":"SIGINT","tree":true}`: messages.Signal{Process: 1000, Signal: syscall.SIGINT, Tree: true},
		`{"process":1000,"signal":"SIG40"}`:              messages.Signal{Process: 1000, Signal: 40},
		`{"kind":"signal","signal":"SIGTERM"}`:           messages.StatusSignaled(syscall.SIGTERM),
		`{"kind":"none"}`:                                messages.StatusNone(),
	} {
		if encoded, err := json.Marshal(value); err != nil || string(encoded) != want {
			t.Errorf("%s (%v), want %s", encoded, err, want)
		}
	}
	for _, text := range []string{`{"signal":"TERM"}`, `{"signal":15}`, `{"process":1000}`} {
		var signal messages.Signal
		if err := json.Unmarshal([]byte(text), &signal); err == nil {
			t.Errorf("%s is %+v", text, signal)
		}
	}
	for _, text := range []string{`{"kind":"signal","signal":"TERM"}`, `{"kind":"code"}`, `{"kind":"coffee"}`, `15`} {
		var status messages.ExitStatus
		if err := json.Unmarshal([]byte(text), &status); err == nil {
			t.Errorf("%s is %v", text, status)
		}
	}
}

var somewhere = messages.Origin{Session: "s", Process: 1000, Call: "c", At: time.Unix(1, 0).UTC()}

var events = map[messages.EventKind]messages.Event{
	messages.KindExecStarted:         messages.ExecStarted{Origin: somewhere},
	messages.KindOutputDelta:         messages.OutputDelta{Origin: somewhere},
	messages.KindExecExited:          messages.ExecExited{Origin: somewhere},
	messages.KindOutputClosed:        messages.OutputClosed{Origin: somewhere},
	messages.KindExecEnded:           messages.ExecEnded{Origin: somewhere},
	messages.KindNetworkConnection:   messages.NetworkConnection{Origin: somewhere},
	messages.KindProgramExecuted:     messages.ProgramExecuted{Origin: somewhere},
	messages.KindAttemptEnded:        messages.AttemptEnded{Origin: somewhere},
	messages.KindTerminalInteraction: messages.TerminalInteraction{Origin: somewhere},
	messages.KindProcessWarning:      messages.ProcessWarning{Origin: somewhere},
	messages.KindTerminalResized:     messages.TerminalResized{Origin: somewhere},
	messages.KindProcessSignaled:     messages.ProcessSignaled{Origin: somewhere},
	messages.KindAuditAnchored:       messages.AuditAnchored{Origin: somewhere},
	messages.KindExecNotice:          messages.ExecNotice{Origin: somewhere},
	messages.KindGap:                 messages.Gap{Origin: somewhere},
	messages.KindCaughtUp:            messages.CaughtUp{Origin: somewhere, Offset: 7},

	messages.KindApprovalRequested: messages.ApprovalRequested{Origin: somewhere},
	messages.KindApprovalResolved:  messages.ApprovalResolved{Origin: somewhere},
	messages.KindToolDecision:      messages.ToolDecision{Origin: somewhere},

	messages.KindPatchStarted: messages.PatchStarted{Origin: somewhere},
	messages.KindPatchApplied: messages.PatchApplied{Origin: somewhere},
	messages.KindPatchFailed:  messages.PatchFailed{Origin: somewhere},

	messages.KindKeyboardTaken:    messages.KeyboardTaken{Origin: somewhere},
	messages.KindKeyboardReturned: messages.KeyboardReturned{Origin: somewhere},
}

// The names of fields are the wire's: what is stored or sent elsewhere depends on them.
func TestFieldNamesOfAResult(t *testing.T) {
	encoded, err := json.Marshal(messages.Result{Process: 1000, Status: messages.StatusExited(0), ChunkID: "abc123", Output: []byte("hi")})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"process":1000,"running":false,"status":{"kind":"code","code":0},"chunkId":"abc123","wallTimeNs":0,"output":"aGk=","maxOutputTokens":0}`
	if string(encoded) != want {
		t.Errorf("%s\nwant %s", encoded, want)
	}
}
