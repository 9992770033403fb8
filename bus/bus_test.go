package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/execbus/execbus/messages"
)

func TestFilter(t *testing.T) {
	from := func(session messages.SessionID, p messages.ProcessID, call messages.CallID) messages.Origin {
		return messages.Origin{Session: session, Process: p, Call: call}
	}
	events := map[string]messages.Event{
		"started": messages.ExecStarted{Origin: from("a", 1000, "x")},
		"output":  messages.OutputDelta{Origin: from("a", 1000, "x")},
		"gap":     messages.Gap{Origin: from("a", 1000, "x")},
		"other":   messages.ExecEnded{Origin: from("a", 1001, "y")},
		"foreign": messages.ExecEnded{Origin: from("b", 1000, "z")},
		"notice":  messages.ExecNotice{Origin: from("a", 0, "")},
		"input":   messages.TerminalInteraction{Origin: from("a", 1000, "x")},
		"net":     messages.NetworkConnection{Origin: from("b", 1002, "w")},
		"program": messages.ProgramExecuted{Origin: from("b", 1002, "w")}, // only for who names it
	}
	for _, c := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "foreign gap input net notice other output started"},
		{Filter{Kinds: []messages.EventKind{messages.KindOutputDelta}}, "gap output"},
		{Filter{Kinds: []messages.EventKind{messages.KindTerminalInteraction}}, "gap input"},
		{Filter{Kinds: []messages.EventKind{messages.KindNetworkConnection}}, "gap net"},
		{Filter{Kinds: []messages.EventKind{messages.KindProgramExecuted}}, "gap program"},
		{Filter{Kinds: []messages.EventKind{messages.KindGap}}, "gap"},
		{Filter{Kinds: []messages.EventKind{messages.KindExecEnded, messages.KindExecNotice}}, "foreign notice other"},
		{Filter{Processes: []messages.ProcessID{1000}}, "foreign gap input output started"},
		{Filter{Processes: []messages.ProcessID{1000, 1001}}, "foreign gap input other output started"},
		{Filter{Processes: []messages.ProcessID{0}}, "notice"},
		{Filter{Sessions: []messages.SessionID{"b"}}, "foreign net"},
		{Filter{Sessions: []messages.SessionID{"a"}, Processes: []messages.ProcessID{1000}}, "gap input output started"},
		{Filter{Calls: []messages.CallID{"y", "z"}}, "foreign other"},
		{Filter{Calls: []messages.CallID{"y"}, Sessions: []messages.SessionID{"b"}}, ""},
	} {
		var got []string
		for name, ev := range events {
			b := newBus(t)
			s := subscribe(t, b, c.filter, SubscribeOptions{})
			b.Publish(ev)
			if !isEmpty(s) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v selects %v, want %s", c.filter, got, c.want)
		}
	}
}

// The publisher gives the bytes up, so the bus must not copy them.
func TestASubscriptionThatEndsCanBeReadToItsEnd(t *testing.T) {
	for name, end := range map[string]func(*Bus, *Subscription){
		"end":     func(_ *Bus, s *Subscription) { s.End(); s.End() },
		"session": func(b *Bus, _ *Subscription) { b.CloseSession("s"); b.CloseSession("s") },
	} {
		t.Run(name, func(t *testing.T) {
			b := New(Options{})
			defer b.Close()
			subscribe := func(sessions ...messages.SessionID) *Subscription {
				sub, err := b.Subscribe(Filter{Sessions: sessions}, SubscribeOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return sub
			}
			ends := subscribe("s", "")
			others := []*Subscription{subscribe(), subscribe("s", "t"), subscribe("t", "")}
			publish := func(text string, session messages.SessionID) {
				b.Publish(messages.ExecNotice{Origin: messages.Origin{Session: session}, Text: text})
			}
			publish("before", "s")
			end(b, ends)
			publish("after", "s")
			publish("after", "t")
			publish("after", "")
			if event, err := ends.Next(t.Context()); err != nil || event.(messages.ExecNotice).Text != "before" {
				t.Errorf("%v, %v", event, err)
			}
			_, err := ends.Next(t.Context())
			wantError(t, err, messages.ErrClosed)
			for i, want := range []int{4, 3, 2} {
				got := 0
				for _, ok, _ := others[i].TryNext(); ok; _, ok, _ = others[i].TryNext() {
					got++
				}
				if got != want {
					t.Errorf("subscription %d got %d events, want %d", i, got, want)
				}
			}
			if stats := b.Stats(); stats.Subscriptions != 3 {
				t.Errorf("%d subscriptions are open", stats.Subscriptions)
			}
			ends.Close()
			_, err = ends.Next(t.Context())
			wantError(t, err, messages.ErrClosed)
		})
	}
}

func TestSubscribersShareTheBytes(t *testing.T) {
	b := newBus(t)
	subs := []*Subscription{subscribe(t, b, Filter{}, SubscribeOptions{}), subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true})}
	ev := output(1000, 1, 0, 10)
	b.PublishOutput(ev)
	for _, s := range subs {
		if got := next(t, s).(messages.OutputDelta); &got.Bytes[0] != &ev.Bytes[0] {
			t.Error("the bytes were copied")
		}
	}
}

func TestFilterIsCopied(t *testing.T) {
	b := newBus(t)
	kinds := append(make([]messages.EventKind, 0, 2), messages.KindOutputDelta)
	processes := []messages.ProcessID{1000, 1001}
	sessions := []messages.SessionID{"t", "s"}
	s := subscribe(t, b, Filter{Kinds: kinds, Processes: processes, Sessions: sessions}, SubscribeOptions{})
	if sessions[0] != "t" {
		t.Error("the caller's list was sorted")
	}
	kinds[0], processes[0], sessions[1] = messages.KindExecEnded, 1, "u"
	b.Publish(output(1000, 1, 0, 1))
	next(t, s)
	if kinds[:2][1] != "" {
		t.Error("the caller's array was written to")
	}
}

// A subscriber that wants only the output of one process gets the gap of that process, even if no other event of the process
// is queued.
func TestGapPassesFilterAndStandsAlone(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{Kinds: []messages.EventKind{messages.KindOutputDelta},
		Processes: []messages.ProcessID{1000, 1001}}, SubscribeOptions{Outputs: 2})
	for i := range 3 {
		b.Publish(output(1000, i, int64(10*i), 10))
		b.Publish(output(1002, 0, 0, 10))
	}
	b.Publish(output(1001, 3, 0, 10))
	b.Publish(output(1001, 4, 10, 10))
	want := messages.Gap{Origin: origin(1000, 0), First: 0, End: 30, Deltas: 3}
	if got := next(t, s); got != messages.Event(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := numbers(t, s); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("then %v", got)
	}
	if got := b.Stats(); got != (Stats{Subscriptions: 1, Published: 8, Dropped: 3}) {
		t.Errorf("%+v", got)
	}
}

// A relayed gap splits the range of lost bytes. When the older gap has been read, later losses extend the newer one.
func TestLossesExtendTheNewestGap(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Outputs: 1})
	b.Publish(output(1000, 1, 0, 10))
	b.Publish(messages.Gap{Origin: origin(1000, 2), First: 10, End: 20, Deltas: 1})
	b.Publish(output(1000, 3, 20, 10))
	b.Publish(output(1000, 4, 30, 10))
	ranges := func(n int) (got []int64) {
		for range n {
			gap := next(t, s).(messages.Gap)
			got = append(got, gap.First, gap.End)
		}
		return got
	}
	if got := ranges(1); !slices.Equal(got, []int64{0, 10}) {
		t.Errorf("first gap %v", got)
	}
	b.Publish(output(1000, 5, 40, 10))
	if got := ranges(2); !slices.Equal(got, []int64{10, 20, 20, 40}) {
		t.Errorf("further gaps %v", got)
	}
}

func TestOutputBytesBound(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{OutputBytes: messages.MaxOutputDelta})
	b.Publish(output(1000, 1, 0, 5000))
	b.Publish(output(1000, 2, 5000, 3192))
	b.Publish(output(1000, 3, 8192, 1))
	if gap, ok := next(t, s).(messages.Gap); !ok || gap.End != 5000 {
		t.Errorf("got %+v", gap)
	}
	if got := numbers(t, s); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("then %v", got)
	}
}

func TestLifecycleEventsAreKeptUpToTheLimit(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Outputs: 1})
	other := subscribe(t, b, Filter{Sessions: []messages.SessionID{"elsewhere"}}, SubscribeOptions{})
	b.Publish(output(1000, 1, 0, 1))
	b.Publish(output(1000, 2, 1, 1)) // a gap does not take a lifecycle event's place
	for i := range MaxLifecycle {
		b.Publish(notice(1000, 3+i))
	}
	if n := b.Stats().Subscriptions; n != 2 {
		t.Fatalf("%d subscriptions before the overrun", n)
	}
	b.Publish(notice(1000, 0))
	if n := b.Stats().Subscriptions; n != 1 {
		t.Errorf("%d subscriptions after the overrun", n)
	}
	b.Publish(notice(1000, 0))
	if got := numbers(t, s); len(got) != MaxLifecycle+2 || !slices.IsSorted(got) || got[0] != 1 {
		t.Errorf("read %d events", len(got))
	}
	s.finish(errBusClosed) // by a bus that closes at the same moment
	for range 2 {
		_, err := s.Next(t.Context())
		wantError(t, err, messages.ErrSlowSubscriber)
	}
	s.Close()
	_, err := s.Next(t.Context())
	wantError(t, err, messages.ErrClosed)
	if !isEmpty(other) || other.err != nil {
		t.Error("another subscription was touched")
	}
}

func TestGapsAreBounded(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Outputs: 1})
	for i := range MaxGaps + 1 {
		b.Publish(output(messages.ProcessID(1000+i), i+1, 0, 1))
	}
	if s.ended.Load() {
		t.Fatal("ended too early")
	}
	b.Publish(output(1, MaxGaps+2, 0, 1))
	if got := numbers(t, s); len(got) != MaxGaps+1 || !slices.IsSorted(got) {
		t.Errorf("read %d events", len(got))
	}
	for range 2 {
		_, err := s.Next(t.Context())
		wantError(t, err, messages.ErrSlowSubscriber)
	}
}

func TestCloseSubscriptionDiscards(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{})
	b.Publish(notice(1000, 1))
	s.Close()
	s.Close()
	b.Publish(notice(1000, 2))
	_, err := s.Next(t.Context())
	wantError(t, err, messages.ErrClosed)
	if n := b.Stats().Subscriptions; n != 0 {
		t.Errorf("%d subscriptions", n)
	}
}

func TestCloseBusLeavesTheQueue(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{})
	b.Publish(notice(1000, 1))
	b.Publish(notice(1000, 2))
	b.Close()
	b.Close()
	b.Publish(notice(1000, 3))
	var got []int
	var last error
	for ev, err := range s.All(t.Context()) {
		if last = err; err == nil {
			got = append(got, numberOf(ev))
		}
	}
	if !slices.Equal(got, []int{1, 2}) {
		t.Errorf("read %v", got)
	}
	wantError(t, last, messages.ErrClosed)
	if got := b.Stats(); got != (Stats{Published: 2}) {
		t.Errorf("%+v", got)
	}
	_, err := b.Subscribe(Filter{}, SubscribeOptions{})
	wantError(t, err, messages.ErrClosed)
	s.Close()
}

// Each way to end a subscription wakes every Next that waits.
func TestWaitingNextReturns(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(*Bus, *Subscription, context.CancelFunc)
		want error
	}{
		"subscription closed": {func(_ *Bus, s *Subscription, _ context.CancelFunc) { s.Close() }, messages.ErrClosed},
		"bus closed":          {func(b *Bus, _ *Subscription, _ context.CancelFunc) { b.Close() }, messages.ErrClosed},
		"context ended": {func(_ *Bus, _ *Subscription, cancel context.CancelFunc) { cancel() },
			messages.ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBus(t)
				s := subscribe(t, b, Filter{}, SubscribeOptions{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answers := make(chan error, 2)
				for range 2 {
					go func() {
						_, err := s.Next(ctx)
						answers <- err
					}()
				}
				synctest.Wait()
				c.act(b, s, cancel)
				synctest.Wait()
				if len(answers) != 2 {
					t.Fatalf("%d of 2 returned", len(answers))
				}
				wantError(t, <-answers, c.want)
				wantError(t, <-answers, c.want)
			})
		})
	}
}

func TestWaitingReadersShareABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true})
		c := newTracked()
		answers := make(chan messages.Event, 3)
		for range 3 {
			go func() {
				ev, err := s.Next(t.Context())
				if err != nil {
					t.Error(err)
				}
				answers <- ev
			}()
		}
		synctest.Wait()
		// This is how the wake-ups of three publishers become one.
		s.mu.Lock()
		for i := range 3 {
			s.queue.add(&publication{event: output(1000, i, int64(i), 1), output: true, size: 1, credit: c.Credit})
		}
		s.mu.Unlock()
		s.signal()
		synctest.Wait()
		if len(answers) != 3 {
			t.Fatalf("%d of 3 woke up", len(answers))
		}
		c.Release()
		s.Close()
		if c.released != 1 {
			t.Errorf("released %d times", c.released)
		}
	})
}

func TestCancelledNextTakesNothing(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{})
	b.Publish(notice(1000, 1))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user went home"))
	_, err := s.Next(ctx)
	wantError(t, err, messages.ErrCancelled)
	if !strings.Contains(fmt.Sprint(err), "went home") {
		t.Errorf("%v does not say why", err)
	}
	next(t, s)
}

func TestSubscribeErrors(t *testing.T) {
	b := New(Options{MaxSubscriptions: 1})
	defer b.Close()
	for field, c := range map[string]struct {
		f Filter
		o SubscribeOptions
	}{
		"Outputs":      {o: SubscribeOptions{Outputs: -1}},
		"OutputBytes":  {o: SubscribeOptions{OutputBytes: messages.MaxOutputDelta - 1}},
		"Filter.Kinds": {f: Filter{Kinds: []messages.EventKind{""}}},
	} {
		_, err := b.Subscribe(c.f, c.o)
		wantError(t, err, messages.ErrInvalidRequest)
		if !strings.Contains(fmt.Sprint(err), field) {
			t.Errorf("%q does not name %s", err, field)
		}
	}
	s := subscribe(t, b, Filter{}, SubscribeOptions{})
	_, err := b.Subscribe(Filter{}, SubscribeOptions{})
	wantError(t, err, messages.ErrLimitReached)
	s.Close()
	subscribe(t, b, Filter{}, SubscribeOptions{})
}

func TestAnObserverAnswersNothing(t *testing.T) {
	b := New(Options{})
	defer b.Close()
	sub, err := b.Subscribe(Filter{Kinds: []messages.EventKind{messages.KindApprovalRequested}}, SubscribeOptions{Observer: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if b.Listening(messages.KindApprovalRequested, messages.Origin{}) {
		t.Error("an observer counts as one that answers")
	}
	if !b.Wanted(messages.KindApprovalRequested, messages.Origin{}) || b.Wanted(messages.KindExecStarted, messages.Origin{}) {
		t.Error("an observer wants what it names, and nothing else")
	}
	b.Publish(messages.ApprovalRequested{})
	if event, ok, err := sub.TryNext(); !ok || err != nil || event.Kind() != messages.KindApprovalRequested {
		t.Error(event, err)
	}
}

func TestListeningCountsWhoNamesTheKind(t *testing.T) {
	b := newBus(t)
	const kind = messages.KindApprovalRequested
	from := messages.Origin{Session: "s", Process: 1000, Call: "c"}
	for name, deaf := range map[string]Filter{
		"everything":      {},
		"another kind":    {Kinds: []messages.EventKind{messages.KindExecEnded}},
		"another session": {Kinds: []messages.EventKind{kind}, Sessions: []messages.SessionID{"t"}},
		"another process": {Kinds: []messages.EventKind{kind}, Processes: []messages.ProcessID{1001}},
		"another call":    {Kinds: []messages.EventKind{kind}, Calls: []messages.CallID{"d"}},
	} {
		s := subscribe(t, b, deaf, SubscribeOptions{})
		if b.Listening(kind, from) {
			t.Errorf("a subscription to %s counts", name)
		}
		s.Close()
	}
	s := subscribe(t, b, Filter{Kinds: []messages.EventKind{messages.KindExecEnded, kind}, Sessions: []messages.SessionID{"s"}}, SubscribeOptions{})
	if !b.Listening(kind, from) {
		t.Error("a subscription that names the kind does not count")
	}
	s.Close()
	if b.Listening(kind, from) {
		t.Error("a closed subscription counts")
	}
	subscribe(t, b, Filter{Kinds: []messages.EventKind{kind}}, SubscribeOptions{})
	b.Close()
	if b.Listening(kind, from) {
		t.Error("a closed bus has a listener")
	}
}
