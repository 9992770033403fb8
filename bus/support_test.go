package bus

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin stamps an event with its number in the order of publication; a gap inherits the number of its first lost delta.
func origin(p messages.ProcessID, number int) messages.Origin {
	return messages.Origin{Session: "s", Process: p, Call: messages.CallID("call " + p.String()),
		At: time.Unix(int64(number), 0)}
}

func numberOf(ev messages.Event) int { return int(ev.From().At.Unix()) }

func output(p messages.ProcessID, number int, offset int64, size int) messages.OutputDelta {
	return messages.OutputDelta{Origin: origin(p, number), Stream: messages.StreamPTY, Offset: offset, Bytes: make([]byte, size)}
}

func notice(p messages.ProcessID, number int) messages.ExecNotice {
	return messages.ExecNotice{Origin: origin(p, number)}
}

func newBus(t testing.TB) *Bus {
	b := New(Options{})
	t.Cleanup(b.Close)
	return b
}

func subscribe(t testing.TB, b *Bus, f Filter, o SubscribeOptions) *Subscription {
	t.Helper()
	s, err := b.Subscribe(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// next reads an event that must be queued already.
func next(t testing.TB, s *Subscription) messages.Event {
	t.Helper()
	s.mu.Lock()
	nothing := s.queue.empty() && s.err == nil
	s.mu.Unlock()
	if nothing {
		t.Fatal("nothing is queued")
	}
	ev, err := s.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// numbers reads everything that is queued.
func numbers(t testing.TB, s *Subscription) (got []int) {
	t.Helper()
	for !isEmpty(s) {
		got = append(got, numberOf(next(t, s)))
	}
	return got
}

func isEmpty(s *Subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.empty()
}

func wantError(t testing.TB, err, target error) {
	t.Helper()
	var ours *messages.Error
	if !errors.Is(err, target) || !errors.As(err, &ours) {
		t.Errorf("got error %v, want one like %q", err, target)
	}
}
