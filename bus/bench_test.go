package bus

import (
	"fmt"
	"testing"

	"github.com/execbus/execbus/messages"
)

var benchmarkFilters = []struct {
	name   string
	filter func(i int) Filter
}{
	{"matching", func(int) Filter { return Filter{} }},
	{"other process", func(i int) Filter { return Filter{Processes: []messages.ProcessID{messages.ProcessID(2000 + i)}} }},
	{"other session", func(i int) Filter { return Filter{Sessions: []messages.SessionID{"t"}} }},
	{"no output", func(i int) Filter { return Filter{Kinds: []messages.EventKind{messages.KindExecEnded}} }},
}

// BenchmarkPublish publishes output to subscribers that never read and whose queues are full.
func BenchmarkPublish(b *testing.B) {
	for _, f := range benchmarkFilters {
		for _, subscribers := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", f.name, subscribers), func(b *testing.B) {
				bus := busWithFullQueues(b, subscribers, f.filter)
				ev := output(1000, 1, 0, 100)
				b.ReportAllocs()
				for b.Loop() {
					bus.PublishOutput(ev)
					ev.Offset += 100
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*subscribers), "ns/subscriber")
			})
		}
	}
}

func busWithFullQueues(t testing.TB, subscribers int, filter func(int) Filter) *Bus {
	bus := New(Options{})
	t.Cleanup(bus.Close)
	for i := range subscribers {
		if _, err := bus.Subscribe(filter(i), SubscribeOptions{Outputs: 64}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 65 {
		bus.Publish(output(1000, 1, int64(100*(i-65)), 100))
	}
	return bus
}

// BenchmarkPublishBesideOtherSessions publishes output of a session with one subscription, beside many of other sessions, each
// of which wants the events of no session, too.
func BenchmarkPublishBesideOtherSessions(b *testing.B) {
	for _, others := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			bus := busWithFullQueues(b, 1, func(int) Filter { return Filter{Sessions: []messages.SessionID{"s", ""}} })
			subscribeSessions(b, bus, others)
			ev := output(1000, 1, 0, 100)
			b.ReportAllocs()
			for b.Loop() {
				bus.PublishOutput(ev)
				ev.Offset += 100
			}
		})
	}
}

func subscribeSessions(t testing.TB, b *Bus, count int) {
	for i := range count {
		other := messages.SessionID(fmt.Sprint("other ", i))
		subscribe(t, b, Filter{Sessions: []messages.SessionID{other, ""}}, SubscribeOptions{})
	}
}

// BenchmarkPublishAndRead moves output to one subscriber that keeps up.
func BenchmarkPublishAndRead(b *testing.B) {
	for name, options := range map[string]SubscribeOptions{"lossy": {}, "lossless": {Lossless: true}} {
		b.Run(name, func(b *testing.B) {
			bus := newBus(b)
			s := subscribe(b, bus, Filter{}, options)
			ev := output(1000, 1, 0, 100)
			b.ReportAllocs()
			for b.Loop() {
				c := NewCredit(func() {})
				bus.PublishOutput(ev, c)
				c.Release()
				if _, err := s.Next(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSubscribeAndClose measures what coming and going costs while many others stay.
func BenchmarkSubscribeAndClose(b *testing.B) {
	for name, filter := range map[string]Filter{"everywhere": {}, "session": {Sessions: []messages.SessionID{"s", ""}}} {
		for _, others := range []int{0, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, others), func(b *testing.B) {
				bus := busWithFullQueues(b, others, benchmarkFilters[1].filter)
				subscribeSessions(b, bus, others)
				b.ReportAllocs()
				for b.Loop() {
					s, err := bus.Subscribe(filter, SubscribeOptions{})
					if err != nil {
						b.Fatal(err)
					}
					s.Close()
				}
			})
		}
	}
}

func TestPublishAllocatesNothingPerSubscriber(t *testing.T) {
	for _, f := range benchmarkFilters {
		bus := busWithFullQueues(t, 500, f.filter)
		ev := output(1000, 1, 0, 100)
		allocs := testing.AllocsPerRun(20, func() {
			bus.PublishOutput(ev)
			ev.Offset += 100
		})
		if allocs > 1 {
			t.Errorf("%s: %v allocations for 500 subscribers", f.name, allocs)
		}
	}
}
