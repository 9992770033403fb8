package probe

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/messages"
)

const patience = 10 * time.Second

// fakeTB fails without failing the test.
type fakeTB struct {
	testing.TB
	failure string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failureOf runs an expectation and returns how it failed.
func failureOf(record []any, expect func(p *Probe)) string {
	fake := &fakeTB{}
	p := New(fake)
	for _, message := range record {
		p.Receive(message)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		expect(p)
	}()
	<-ended
	return fake.failure
}

func TestAnExpectationFindsAMessageThatIsThereAndOneThatComes(t *testing.T) {
	p := New(t)
	p.Receive("noise")
	p.Receive(1)
	p.Receive(2)
	if got := Expect(p, 0, func(n int) bool { return n > 1 }); got != 2 {
		t.Errorf("Expect = %d", got)
	}
	go p.Receive(3)
	if got := Expect[int](p, patience, nil); got != 3 {
		t.Errorf("Expect = %d", got)
	}
	go p.Receive(errors.New("an interface is a type, too"))
	if got := Expect[error](p, patience, nil); got == nil {
		t.Error("Expect[error] = nil")
	}
	if got := p.Seen(); len(got) != 5 || got[0] != "noise" {
		t.Errorf("Seen = %v", got)
	}
	if got := Of(p, func(n int) bool { return n != 2 }); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("Of = %v", got)
	}
}

func TestAnExpectationReadsOnAndNotBack(t *testing.T) {
	failure := failureOf([]any{1, 2}, func(p *Probe) {
		Expect(p, patience, func(n int) bool { return n == 2 })
		Expect(p, time.Millisecond, func(n int) bool { return n == 1 })
	})
	for _, part := range []string{"no int within 1ms", "2 messages were recorded:", "ms  int 1", "ms  int 2"} {
		if !strings.Contains(failure, part) {
			t.Errorf("%q lacks %q", failure, part)
		}
	}
}

func TestWhatDoesNotComeFailsWithinItsTime(t *testing.T) {
	started := time.Now()
	failure := failureOf(nil, func(p *Probe) { Expect[actors.Done](p, 20*time.Millisecond, nil) })
	if !strings.Contains(failure, "no protocol.Done within 20ms\nnothing was recorded") {
		t.Errorf("failure: %q", failure)
	}
	if took := time.Since(started); took < 20*time.Millisecond || took > patience {
		t.Errorf("it took %v", took)
	}
}

func TestExpectNone(t *testing.T) {
	last := func(message any) bool { return message == "last" }
	if failure := failureOf([]any{1, "last", -1}, func(p *Probe) {
		ExpectNone(p, patience, func(n int) bool { return n < 0 }, last)
	}); failure != "" {
		t.Errorf("nothing unwanted came, and yet: %s", failure)
	}
	if failure := failureOf([]any{1, -1, "last"}, func(p *Probe) {
		ExpectNone(p, patience, func(n int) bool { return n < 0 }, last)
	}); !strings.Contains(failure, "unexpected int -1") {
		t.Errorf("failure: %q", failure)
	}
	if failure := failureOf([]any{1}, func(p *Probe) {
		ExpectNone[string](p, time.Millisecond, nil, last)
	}); !strings.Contains(failure, "the last message did not come") {
		t.Errorf("failure: %q", failure)
	}
}

func TestExpectInOrder(t *testing.T) {
	record := []any{1, "a", 2.5, "b"}
	var found []any
	if failure := failureOf(record, func(p *Probe) {
		found = ExpectInOrder(p, patience, A[int](nil), A(func(s string) bool { return s == "b" }))
	}); failure != "" || !slices.Equal(found, []any{1, "b"}) {
		t.Errorf("found %v, failure %q", found, failure)
	}
	if failure := failureOf(record, func(p *Probe) {
		ExpectInOrder(p, time.Millisecond, A[string](nil), A[int](nil))
	}); !strings.Contains(failure, "step 2 of 2, int, did not come") {
		t.Errorf("failure: %q", failure)
	}
}

func TestOutputAndHistoryShowWhatEventsSay(t *testing.T) {
	from := messages.Origin{Process: 1000, Call: "c"}
	record := []any{
		messages.OutputDelta{Origin: from, Stream: messages.StreamPTY, Seq: 1, Bytes: []byte("a\x00")},
		messages.OutputDelta{Origin: messages.Origin{Process: 1001}, Bytes: []byte("of another")},
		messages.Gap{Origin: from, First: 2, End: 9, Deltas: 1},
		messages.TerminalInteraction{Origin: from, Mode: messages.InputLine, Length: 5, Input: []byte("typed")},
		messages.ExecEnded{Origin: from, EndRecord: messages.EndRecord{Cause: messages.CauseExited, Status: messages.StatusExited(3)},
			Transcript: make([]byte, 2*longest)},
		&messages.Result{Process: 1000, Running: true, Output: []byte("said")},
		messages.ErrUnknownProcess,
	}
	failure := failureOf(record, func(p *Probe) {
		if got := p.Output(1000); got != "a\x00[gap 2..9]" {
			t.Errorf("Output = %q", got)
		}
		Expect[int](p, 0, nil)
	})
	for _, part := range []string{`pty seq=1 offset=0 "a\x00"`, `line 5 bytes "typed"`, "exited, code(3)", "lost bytes 2 to 9", "bytes)", `running=true`, `"said"`,
		"unknown process"} {
		if !strings.Contains(failure, part) {
			t.Errorf("%s\nlacks %q", failure, part)
		}
	}
}

func TestManySendersLoseNothing(t *testing.T) {
	p := New(t)
	const senders, each = 8, 500
	for range senders {
		go func() {
			for n := range each {
				p.Receive(n)
			}
		}()
	}
	for range senders * each {
		Expect[int](p, patience, nil)
	}
	if got := len(p.Seen()); got != senders*each {
		t.Errorf("%d messages", got)
	}
}
