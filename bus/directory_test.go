package bus

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// in makes an event of a session.
func in(session messages.SessionID, number int) messages.Event {
	ev := notice(1000, number)
	ev.Session = session
	return ev
}

// A publish does not even look at subscriptions of other sessions.
func TestPublishingFindsSubscribersBySession(t *testing.T) {
	b := newBus(t)
	named := func(sessions ...messages.SessionID) *Subscription {
		return subscribe(t, b, Filter{Sessions: sessions}, SubscribeOptions{})
	}
	for i := range 1000 {
		named(messages.SessionID(fmt.Sprint(i)), "")
	}
	own, all := named("s", ""), named()
	met := func(session messages.SessionID) (subs []*Subscription) {
		for _, list := range b.directory.Load().candidates(session) {
			subs = append(subs, list...)
		}
		return subs
	}
	if got := met("s"); !slices.Equal(got, []*Subscription{all, own}) {
		t.Errorf("an event of a session meets %d subscriptions, want 2", len(got))
	}
	if got := met("of nobody"); !slices.Equal(got, []*Subscription{all}) {
		t.Errorf("an event of a session without subscribers meets %d, want 1", len(got))
	}
	if got := met(""); len(got) != 1002 {
		t.Errorf("an event of no session meets %d, want 1002", len(got))
	}
}

// directoryMachine compares a bus with a list of subscriptions in which every event is offered to all.
type directoryMachine struct {
	bus       *Bus
	subs      []*Subscription
	sessions  [][]messages.SessionID // as asked for, by subscription
	published int
}

var drawnSessions = rapid.SampledFrom([]messages.SessionID{"", "a", "b", "c"})

func (m *directoryMachine) subscribe(t *rapid.T) {
	sessions := rapid.SliceOfN(drawnSessions, 0, 4).Draw(t, "sessions")
	s, err := m.bus.Subscribe(Filter{Sessions: sessions}, SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.queue.limits.lifecycle = rapid.IntRange(1, 4).Draw(t, "limit")
	m.subs, m.sessions = append(m.subs, s), append(m.sessions, sessions)
}

func (m *directoryMachine) publish(t *rapid.T) {
	m.published++
	ev := in(drawnSessions.Draw(t, "session"), m.published)
	before := map[*Subscription]int{}
	for _, s := range m.subs {
		before[s] = s.queue.lifecycle.count
	}
	m.bus.Publish(ev)
	for i := 0; i < len(m.subs); i++ {
		s, sessions := m.subs[i], m.sessions[i]
		want := before[s]
		if len(sessions) == 0 || slices.Contains(sessions, ev.From().Session) {
			want++
		}
		if over := want > s.queue.limits.lifecycle; over != s.ended.Load() {
			t.Fatalf("ended: %t, want %t", s.ended.Load(), over)
		} else if over {
			s.Close() // its owner closes it in the end; the directory has already dropped it
			m.drop(i)
			i--
		} else if got := s.queue.lifecycle.count; got != want {
			t.Fatalf("%d events, want %d", got, want)
		}
	}
}

func (m *directoryMachine) close(t *rapid.T) {
	if len(m.subs) > 0 {
		i := rapid.IntRange(0, len(m.subs)-1).Draw(t, "subscription")
		m.subs[i].Close()
		m.drop(i)
	}
}

func (m *directoryMachine) drop(i int) {
	m.subs, m.sessions = slices.Delete(m.subs, i, i+1), slices.Delete(m.sessions, i, i+1)
}

func (m *directoryMachine) check(t *rapid.T) {
	d := m.bus.directory.Load()
	if d.open != len(m.subs) || m.bus.Stats().Subscriptions != d.open {
		t.Fatalf("%d are open, want %d", d.open, len(m.subs))
	}
	listed := len(d.everywhere)
	for session, list := range d.sessions {
		if len(list) == 0 {
			t.Fatalf("session %q has nobody and is listed", session)
		}
		listed += len(list)
	}
	want := 0
	for _, s := range m.subs {
		want += max(1, len(s.filter.Sessions))
	}
	if listed != want {
		t.Fatalf("%d entries, want %d", listed, want)
	}
}

func TestDirectoryAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &directoryMachine{bus: New(Options{})}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "subscribe": m.subscribe, "publish": m.publish, "close": m.close,
		})
		m.bus.Close()
		for _, s := range m.subs {
			if !s.ended.Load() {
				t.Fatal("a subscription outlived its bus")
			}
		}
	})
}

// Subscriptions come and go while a list is being walked. The list does not change.
func TestChangesLeaveOlderDirectoriesAlone(t *testing.T) {
	b := newBus(t)
	var subs []*Subscription
	for range 5 {
		subs = append(subs, subscribe(t, b, Filter{Sessions: []messages.SessionID{"s"}}, SubscribeOptions{}),
			subscribe(t, b, Filter{}, SubscribeOptions{}))
	}
	d := b.directory.Load()
	before := d.candidates("s")
	was := [2][]*Subscription{slices.Clone(before[0]), slices.Clone(before[1])}
	for _, s := range subs[2:] {
		s.Close()
		subscribe(t, b, s.filter, SubscribeOptions{})
	}
	after := d.candidates("s")
	for i := range was {
		if !slices.Equal(before[i], was[i]) || !slices.Equal(after[i], was[i]) {
			t.Errorf("list %d has changed", i)
		}
	}
}
