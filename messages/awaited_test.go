package messages_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

var inputKinds = []messages.InputKind{messages.InputLine, messages.InputSecret, messages.InputKeys, messages.InputPipe, messages.InputUnknown, ""}

// keeps reports whether everything that one kind lets be kept may be kept of the other, too.
func keeps(strict, other messages.InputKind) bool {
	for _, raw := range []bool{false, true} {
		if strict.Recordable(raw) && !other.Recordable(raw) {
			return false
		}
	}
	return true
}

func TestTheStricterOfTwoKindsKeepsNothingThatOneOfThemForbids(t *testing.T) {
	for _, a := range inputKinds {
		for _, b := range inputKinds {
			got := messages.StricterInput(a, b)
			if got != a && got != b || !keeps(got, a) || !keeps(got, b) {
				t.Errorf("of %q and %q: %q", a, b, got)
			}
			if secret := a == messages.InputSecret || b == messages.InputSecret; secret != (got == messages.InputSecret) {
				t.Errorf("of %q and %q: %q, and only a secret is one", a, b, got)
			}
		}
	}
}

// However often the mode changes, the runs are few, cover what was added, and keep no byte that its own kind forbids.
func TestRunsOfInputAreBoundedAndKeepNothingThatIsForbidden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []messages.InputRun
		var bytes []messages.InputKind // the kind of each
		for range rapid.IntRange(0, 3*messages.MaxInputRuns).Draw(t, "runs") {
			run := messages.InputRun{Kind: rapid.SampledFrom(inputKinds).Draw(t, "kind"), Bytes: rapid.IntRange(-1, 3).Draw(t, "bytes")}
			runs = messages.AppendInputRun(runs, run)
			for range max(run.Bytes, 0) {
				bytes = append(bytes, run.Kind)
			}
		}
		if len(runs) > messages.MaxInputRuns {
			t.Fatalf("%d runs", len(runs))
		}
		at := 0
		for i, run := range runs {
			last := i+1 == messages.MaxInputRuns // it has the rest
			if run.Bytes <= 0 || at+run.Bytes > len(bytes) || !last && i > 0 && runs[i-1].Kind == run.Kind {
				t.Fatalf("run %d of %v, for %d bytes", i, runs, len(bytes))
			}
			for _, kind := range bytes[at : at+run.Bytes] {
				if run.Kind != kind && (!last || !keeps(run.Kind, kind)) {
					t.Fatalf("run %d of %v has a byte of %q", i, runs, kind)
				}
			}
			at += run.Bytes
		}
		if at != len(bytes) {
			t.Fatalf("the runs have %d bytes of %d", at, len(bytes))
		}
	})
}
