package bustest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/bus/bustest"
	"github.com/execbus/execbus/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

func origin(p messages.ProcessID) messages.Origin {
	return messages.Origin{Session: "s", Process: p, Call: "c"}
}

func start(t *testing.T) (*bus.Bus, *bustest.Recorder) {
	b := bus.New(bus.Options{})
	t.Cleanup(b.Close)
	return b, bustest.Record(t, b, bus.Filter{}, bus.SubscribeOptions{Outputs: 2})
}

// failure runs f with a stand-in for a test and returns how the stand-in failed.
func failure(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	fake := &fakeTest{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(fake)
	}()
	<-done
	return fake.message
}

type fakeTest struct {
	testing.TB
	message string
}

func (f *fakeTest) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestExpectSkipsAndRemembers(t *testing.T) {
	b, rec := start(t)
	for i := range 3 {
		b.Publish(messages.OutputDelta{Origin: origin(1000), Offset: int64(2 * i), Bytes: []byte("ab")})
	}
	b.Publish(messages.ExecEnded{Origin: origin(1001)})
	b.Publish(messages.ExecEnded{Origin: origin(1000)})

	got := bustest.Expect(t, rec, patience, func(e messages.ExecEnded) bool { return e.Process == 1000 })
	if got.Process != 1000 {
		t.Errorf("got %v", got)
	}
	if out := rec.Output(1000); out != "[gap 0..2]abab" {
		t.Errorf("output %q", out)
	}
	if n := len(rec.Seen()); n != 5 {
		t.Errorf("%d events seen", n)
	}
	b.Publish(messages.ExecNotice{Origin: origin(1)})
	bustest.Expect[messages.ExecNotice](t, rec, patience, nil)
	b.Close()
	bustest.ExpectEnd(t, rec, patience, messages.ErrClosed)
}

func TestExpectNone(t *testing.T) {
	b, rec := start(t)
	isNotice := func(e messages.Event) bool { return e.Kind() == messages.KindExecNotice }
	b.Publish(messages.ExecExited{Origin: origin(1000)})
	b.Publish(messages.ExecNotice{})
	bustest.ExpectNone[messages.ExecEnded](t, rec, patience, nil, isNotice)

	b.Publish(messages.ExecEnded{Origin: origin(1000)})
	got := failure(t, func(t testing.TB) {
		bustest.ExpectNone[messages.ExecEnded](t, rec, patience, nil, isNotice)
	})
	if !strings.Contains(got, "unexpected exec_ended") {
		t.Errorf("failed with %q", got)
	}
	b.Close()
	got = failure(t, func(t testing.TB) { bustest.ExpectNone[messages.ExecEnded](t, rec, patience, nil, isNotice) })
	if !strings.Contains(got, "bus is closed") {
		t.Errorf("failed with %q", got)
	}
}

func TestFailuresPrintWhatWasSeen(t *testing.T) {
	b, rec := start(t)
	expectEnd := func(t testing.TB) { bustest.Expect[messages.ExecEnded](t, rec, time.Millisecond, nil) }
	if got := failure(t, expectEnd); !strings.Contains(got, "nothing more within 1ms\nno event was seen") {
		t.Errorf("failed with %q", got)
	}
	for i := range 3 {
		b.Publish(messages.OutputDelta{Origin: origin(1000), Stream: messages.StreamPTY, Offset: int64(2 * i), Bytes: []byte("ab")})
	}
	b.Publish(messages.ExecNotice{Origin: origin(1000), Text: "careful"})
	b.Close()
	got := failure(t, expectEnd)
	for _, want := range []string{"expected messages.ExecEnded", "the bus is closed", "4 events were seen",
		"lost bytes 0 to 2 of output", `offset=4 "ab"`, "careful"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	got = failure(t, func(t testing.TB) { bustest.ExpectEnd(t, rec, patience, messages.ErrSlowSubscriber) })
	if !strings.Contains(got, "expected the end") {
		t.Errorf("failed with %q", got)
	}
	got = failure(t, func(t testing.TB) { bustest.Record(t, b, bus.Filter{}, bus.SubscribeOptions{}) })
	if !strings.Contains(got, "the bus is closed") {
		t.Errorf("failed with %q", got)
	}
}
