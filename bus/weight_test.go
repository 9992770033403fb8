package bus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// input makes an input that weighs its bytes and the 10 of its origin.
func input(p messages.ProcessID, number int, size int) messages.TerminalInteraction {
	return messages.TerminalInteraction{Origin: origin(p, number), Length: size, Input: make([]byte, size)}
}

// drain returns the queued events and the error that follows them.
func drain(s *Subscription) (events []messages.Event, err error) {
	for {
		ev, ok, err := s.TryNext()
		if !ok {
			return events, err
		}
		events = append(events, ev)
	}
}

func TestInputsNobodyReadsBecomeAGap(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{})
	const size, count = 1 << 20, 700
	bytes := make([]byte, size)
	b.Publish(messages.ExecStarted{Origin: origin(1000, 1)})
	for i := range count {
		b.Publish(messages.TerminalInteraction{Origin: origin(1000, i+2), Length: size, Input: bytes})
		if held := s.queue.bytes + s.queue.weight; held > DefaultOutputBytes+1024 {
			t.Fatalf("%d bytes are held", held)
		}
	}
	b.Publish(notice(1000, count+2))
	events, err := drain(s)
	if err != nil {
		t.Fatal(err)
	}
	const kept = DefaultOutputBytes/size - 1 // origins weigh, too
	want := messages.Gap{Origin: origin(1000, 2), Inputs: count - kept, InputBytes: (count - kept) * size}
	if len(events) != kept+3 || events[1] != messages.Event(want) {
		t.Errorf("%d events, then %+v, want %+v", len(events), events[1], want)
	}
	if n := b.Stats().Dropped; n != count-kept {
		t.Errorf("dropped %d", n)
	}
}

// The number of inputs is bounded, too: each poll of a process is an input, and weighs nothing.
func TestInputsShareTheBoundOfOutputs(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Outputs: 2})
	b.Publish(input(1000, 1, 3))
	b.Publish(output(1000, 2, 0, 10))
	b.Publish(notice(1000, 3))
	b.Publish(input(1000, 4, 5))
	b.Publish(output(1000, 5, 10, 10))
	b.Publish(input(1000, 6, 0))
	b.Publish(input(1001, 7, 1))
	events, _ := drain(s)
	want := []messages.Event{
		messages.Gap{Origin: origin(1000, 1), Inputs: 1, InputBytes: 3},
		messages.Gap{Origin: origin(1000, 2), End: 20, Deltas: 2, Inputs: 1, InputBytes: 5},
		notice(1000, 3),
	}
	if len(events) != 5 || !slices.Equal(events[:3], want) {
		t.Errorf("got  %+v\nwant %+v", events, want)
	}
	if got := []int{numberOf(events[3]), numberOf(events[4])}; !slices.Equal(got, []int{6, 7}) {
		t.Errorf("then %v", got)
	}
}

func TestAnInputOverTheBoundIsLostAlone(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{OutputBytes: messages.MaxOutputDelta})
	b.Publish(input(1000, 1, messages.MaxOutputDelta+1))
	b.Publish(input(1000, 2, 1))
	events, _ := drain(s)
	want := messages.Gap{Origin: origin(1000, 1), Inputs: 1, InputBytes: messages.MaxOutputDelta + 1}
	if len(events) != 2 || events[0] != messages.Event(want) || numberOf(events[1]) != 2 {
		t.Errorf("%+v", events)
	}
}

func TestTheMemoryBehindOutputCounts(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{OutputBytes: messages.MaxOutputDelta})
	for i := range 3 {
		ev := output(1000, i+1, int64(i), messages.MaxOutputDelta/2)
		ev.Bytes = ev.Bytes[:1]
		b.PublishOutput(ev)
	}
	if gap, ok := next(t, s).(messages.Gap); !ok || gap.End != 1 {
		t.Errorf("got %+v", gap)
	}
	if got := numbers(t, s); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("then %v", got)
	}
}

func TestOutputOverTheBoundEndsALosslessSubscription(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true, OutputBytes: messages.MaxOutputDelta})
	b.Publish(output(1000, 1, 0, messages.MaxOutputDelta+1))
	events, err := drain(s)
	wantError(t, err, messages.ErrSlowSubscriber)
	if len(events) != 0 {
		t.Errorf("%d events", len(events))
	}
}

// In a lossless subscription inputs are neither lost nor under flow control. Too many of them end the subscription, as too
// many lifecycle events do.
func TestLosslessSubscriptionsKeepInputsUpToTheLimit(t *testing.T) {
	for name, c := range map[string]struct{ size, fit int }{
		"number": {0, MaxLifecycle},
		"weight": {MaxWeight/4 - 10, 4},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(t)
			s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true, Outputs: 1})
			ev := input(1000, 1, c.size)
			for range c.fit {
				b.Publish(ev)
			}
			if s.ended.Load() {
				t.Fatal("ended too early")
			}
			b.Publish(ev)
			events, err := drain(s)
			wantError(t, err, messages.ErrSlowSubscriber)
			if len(events) != c.fit {
				t.Errorf("%d events", len(events))
			}
		})
	}
}

// A command makes connections as fast as it likes. No subscription ends by them.
func TestConnectionsEndNoSubscription(t *testing.T) {
	const count = 3 * MaxLifecycle
	for name, options := range map[string]SubscribeOptions{"lossy": {Outputs: MaxLifecycle}, "lossless": {Lossless: true}} {
		for _, size := range []int{0, MaxWeight / 1000} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				b := newBus(t)
				s := subscribe(t, b, Filter{}, options)
				for i := range count {
					b.Publish(messages.NetworkConnection{Origin: origin(1000, i+1), Connection: messages.Connection{Reason: strings.Repeat("x", size)}})
				}
				b.Publish(messages.ExecEnded{Origin: origin(1000, count+1)})
				events, err := drain(s)
				if err != nil {
					t.Fatal(err)
				}
				kept, lost, ended := 0, 0, false
				for _, ev := range events {
					switch e := ev.(type) {
					case messages.NetworkConnection:
						kept++
					case messages.Gap:
						lost += e.Connections
						if e.Deltas > 0 || e.Inputs > 0 || e.String() != fmt.Sprintf("lost %d connections", e.Connections) {
							t.Errorf("%s", e)
						}
					case messages.ExecEnded:
						ended = true
					}
				}
				if kept+lost != count || kept == 0 || lost == 0 || !ended || b.Stats().Dropped != uint64(lost) {
					t.Errorf("%d were kept, %d were lost, the end came %v: %+v", kept, lost, ended, b.Stats())
				}
			})
		}
	}
}

func TestLifecycleEventsAreKeptUpToTheirWeight(t *testing.T) {
	from := origin(1000, 1)
	for name, weighing := range map[string]func(weight int) messages.Event{
		"argument": func(n int) messages.Event {
			return messages.ExecStarted{Origin: from, Argv: []string{strings.Repeat("x", n-16)}}
		},
		"transcript": func(n int) messages.Event { return messages.ExecEnded{Origin: from, Transcript: make([]byte, n)} },
		"question": func(n int) messages.Event {
			return messages.ApprovalRequested{Origin: from, Question: messages.Question{Display: strings.Repeat("x", n)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(t)
			s := subscribe(t, b, Filter{}, SubscribeOptions{})
			ev := weighing(MaxWeight/4 - 10)
			for range 4 {
				b.Publish(ev)
			}
			next(t, s)
			b.Publish(ev) // there is room for this one
			if s.ended.Load() {
				t.Fatal("ended too early")
			}
			b.Publish(ev) // there is no room for this one
			events, err := drain(s)
			wantError(t, err, messages.ErrSlowSubscriber)
			if len(events) != 4 {
				t.Errorf("%d events were kept, want 4", len(events))
			}
		})
	}
}

func TestAHeavyEventIsLetInAlone(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{})
	heavy := messages.ExecEnded{Origin: origin(1000, 1), Transcript: make([]byte, MaxWeight+1)}
	b.Publish(heavy)
	next(t, s)
	b.Publish(notice(1000, 2))
	b.Publish(heavy)
	events, err := drain(s)
	wantError(t, err, messages.ErrSlowSubscriber)
	if len(events) != 1 {
		t.Errorf("%d events", len(events))
	}
}

func TestGapsWeigh(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Outputs: 1})
	call := messages.CallID(strings.Repeat("x", MaxWeight/4-1))
	for i := range 6 {
		ev := output(messages.ProcessID(1000+i), i, 0, 1)
		ev.Call = call
		if s.ended.Load() {
			t.Fatal("ended too early")
		}
		b.Publish(ev)
	}
	events, err := drain(s)
	wantError(t, err, messages.ErrSlowSubscriber)
	if len(events) != 5 {
		t.Errorf("%d events", len(events))
	}
}

func TestErrorsSayWhoseSubscriptionItWas(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Name: "the audit log", Lossless: true, Outputs: 1})
	b.Publish(output(1000, 1, 0, 1))
	b.Publish(output(1000, 2, 1, 1))
	_, err := drain(s)
	wantError(t, err, messages.ErrSlowSubscriber)
	if !strings.Contains(err.Error(), "the audit log") {
		t.Errorf("%v does not say who", err)
	}
}
