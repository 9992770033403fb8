package bus

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// tracked is a credit with what the model knows about it.
type tracked struct {
	*Credit
	released  int
	publisher bool // the publisher still holds it
}

func newTracked() *tracked {
	c := &tracked{publisher: true}
	c.Credit = NewCredit(func() { c.released++ })
	return c
}

// lossless is a subscription, with the number of holds that its unread events have on each credit.
type lossless struct {
	sub      *Subscription
	queued   [][]*tracked
	numbers  []int
	handling []*tracked
}

type creditMachine struct {
	bus       *Bus
	credits   []*tracked
	subs      []*lossless
	published int
	closed    bool
}

func (m *creditMachine) subscribe(t *rapid.T) {
	sub, err := m.bus.Subscribe(Filter{}, SubscribeOptions{Outputs: 1, Lossless: true})
	if (err != nil) != m.closed {
		t.Fatalf("subscribe: %v", err)
	}
	if err == nil {
		m.subs = append(m.subs, &lossless{sub: sub})
	}
}

func (m *creditMachine) publish(t *rapid.T) {
	held := []*tracked{m.credit(t)}
	credits := []*Credit{held[0].Credit}
	for range rapid.IntRange(0, 2).Draw(t, "more credits") {
		c := m.credit(t)
		held, credits = append(held, c), append(credits, c.Credit)
	}
	if rapid.Bool().Draw(t, "nil credit") {
		credits = append(credits, nil)
	}
	m.published++
	m.bus.PublishOutput(output(1000, m.published, 0, messages.MaxOutputDelta), credits...)
	m.queue(held)
}

// credit returns a new credit, or one that was used before and is still held.
func (m *creditMachine) credit(t *rapid.T) *tracked {
	if len(m.credits) > 0 && rapid.Bool().Draw(t, "old credit") {
		if c := rapid.SampledFrom(m.credits).Draw(t, "credit"); c.released == 0 {
			return c
		}
	}
	c := newTracked()
	m.credits = append(m.credits, c)
	return c
}

// lifecycle publishes an event that holds no credit. Inputs are such events, too.
func (m *creditMachine) lifecycle(t *rapid.T) {
	m.published++
	m.bus.Publish(rapid.SampledFrom([]messages.Event{notice(1000, m.published), input(1000, m.published, 100)}).Draw(t, "event"))
	m.queue(nil)
}

func (m *creditMachine) queue(held []*tracked) {
	for _, s := range m.subs {
		if !m.closed {
			s.queued = append(s.queued, held)
			s.numbers = append(s.numbers, m.published)
		}
	}
}

func (m *creditMachine) release(t *rapid.T) {
	if len(m.credits) > 0 {
		c := rapid.SampledFrom(m.credits).Draw(t, "credit")
		c.Release()
		c.publisher = false
	}
}

func (m *creditMachine) read(t *rapid.T) {
	if len(m.subs) == 0 {
		return
	}
	s := rapid.SampledFrom(m.subs).Draw(t, "subscription")
	s.handling = nil
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if len(s.numbers) == 0 {
		cancel()
	}
	ev, err := s.sub.Next(ctx)
	if len(s.numbers) == 0 {
		if err == nil {
			t.Fatalf("read %v, want nothing", ev)
		}
		return
	}
	if err != nil || numberOf(ev) != s.numbers[0] {
		t.Fatalf("read %v, %v, want number %d", ev, err, s.numbers[0])
	}
	s.handling, s.queued, s.numbers = s.queued[0], s.queued[1:], s.numbers[1:]
}

func (m *creditMachine) closeOne(t *rapid.T) {
	if len(m.subs) > 0 {
		i := rapid.IntRange(0, len(m.subs)-1).Draw(t, "subscription")
		m.subs[i].sub.Close()
		m.subs = slices.Delete(m.subs, i, i+1)
	}
}

// closeBus releases all holds; the events stay.
func (m *creditMachine) closeBus(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "close") > 0 {
		return
	}
	m.bus.Close()
	m.closed = true
	for _, s := range m.subs {
		s.handling = nil
		clear(s.queued)
	}
}

func (m *creditMachine) check(t *rapid.T) {
	for i, c := range m.credits {
		held := c.publisher
		for _, s := range m.subs {
			held = held || slices.Contains(s.handling, c) || slices.Contains(slices.Concat(s.queued...), c)
		}
		want := 1
		if held {
			want = 0
		}
		if c.released != want {
			t.Fatalf("credit %d: released %d times, want %d", i, c.released, want)
		}
	}
}

func TestCreditsAreReleasedExactlyOnceAndNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &creditMachine{bus: New(Options{})}
		if _, err := m.bus.Subscribe(Filter{}, SubscribeOptions{}); err != nil { // this one is not lossless and must hold nothing
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "subscribe": m.subscribe, "publish": m.publish, "lifecycle": m.lifecycle, "release": m.release,
			"read": m.read, "closeOne": m.closeOne, "closeBus": m.closeBus,
		})
		for _, c := range m.credits {
			c.Release()
			c.publisher = false
		}
		for len(m.subs) > 0 {
			m.subs[0].sub.Close()
			m.subs = m.subs[1:]
		}
		m.check(t)
	})
}

// Bytes of one batch that the publisher held back go out with the next batch. That event holds the credits of both.
func TestAnEventHoldsAllItsCredits(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true, Outputs: 1})
	first, second := newTracked(), newTracked()
	b.PublishOutput(output(1000, 1, 0, 1), first.Credit)
	b.PublishOutput(output(1000, 2, 1, 1), first.Credit, second.Credit)
	b.PublishOutput(output(1000, 3, 2, 1), second.Credit)
	first.Release()
	second.Release()
	for i, want := range [][2]int{{0, 0}, {0, 0}, {1, 0}, {1, 1}} {
		_, ok, err := s.TryNext()
		if ok != (i < 3) || err != nil {
			t.Fatal(i, err)
		}
		if got := [2]int{first.released, second.released}; got != want {
			t.Errorf("event %d: released %v, want %v", i+1, got, want)
		}
	}
}

func TestSpentCreditsOfAnEventDoNotCount(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true, Outputs: 1})
	spent, held := newTracked(), newTracked()
	spent.Release()
	b.PublishOutput(output(1000, 1, 0, 1), spent.Credit, held.Credit)
	b.PublishOutput(output(1000, 2, 1, 1), nil, held.Credit)
	held.Release()
	if s.ended.Load() || held.released != 0 {
		t.Fatal("one credit is enough")
	}
	b.PublishOutput(output(1000, 3, 2, 1), spent.Credit, nil)
	if !s.ended.Load() || held.released != 1 || spent.released != 1 {
		t.Error("output without a credit found room in a full queue")
	}
}

func TestSpentCreditStaysSpent(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true})
	c := newTracked()
	c.Release()
	b.PublishOutput(output(1000, 1, 0, 1), c.Credit)
	next(t, s)
	s.Close()
	c.Release()
	if c.released != 1 {
		t.Errorf("released %d times", c.released)
	}
	(*Credit)(nil).Release()
}

func TestLosslessWithoutCreditEndsWhenFull(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true, Outputs: 2})
	c := newTracked()
	c.publisher = false
	b.PublishOutput(output(1000, 1, 0, 1), c.Credit)
	c.Release()
	for i := range 2 {
		b.Publish(output(1000, i+2, int64(i+1), 1))
	}
	if c.released != 1 {
		t.Error("the overrun did not release the credit")
	}
	if got := numbers(t, s); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("read %v", got)
	}
	_, err := s.Next(t.Context())
	wantError(t, err, messages.ErrSlowSubscriber)
	if n := b.Stats().Dropped; n != 0 {
		t.Errorf("dropped %d", n)
	}
}

func TestLosslessSubscriberThatStopsReadingIsEndedByLifecycleEvents(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true})
	c := newTracked()
	b.PublishOutput(output(1000, 1, 0, 1), c.Credit)
	b.PublishOutput(output(1000, 2, 1, 1), c.Credit)
	c.Release()
	next(t, s)
	for i := range MaxLifecycle {
		b.Publish(notice(1000, i+3))
	}
	if c.released != 0 {
		t.Fatal("released too early")
	}
	b.Publish(notice(1000, 0))
	if c.released != 1 {
		t.Error("not released by the overrun")
	}
	if got := numbers(t, s); len(got) != MaxLifecycle+1 {
		t.Errorf("%d events left", len(got))
	}
}

func TestLeavingALoopReleases(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true})
	c := newTracked()
	b.PublishOutput(output(1000, 1, 0, 1), c.Credit)
	c.Release()
	for _, err := range s.All(t.Context()) {
		if err != nil || c.released != 0 {
			t.Fatal(err, c.released)
		}
		break
	}
	if c.released != 1 {
		t.Error("not released")
	}
}
