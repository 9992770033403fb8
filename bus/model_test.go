package bus

import (
	"context"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// model is the queue as one would explain it: a list in order of publication, from which the oldest output is cut.
type model struct {
	limits  limits
	list    []entry
	dropped int
	ended   bool
}

type entry struct {
	ev   messages.Event
	lost bool // a gap the queue made itself
}

func (m *model) publish(ev messages.Event) {
	out, isOutput := ev.(messages.OutputDelta)
	switch {
	case m.ended:
		return
	case !isOutput:
		m.ended = m.count().lifecycle == m.limits.lifecycle
	default:
		for c := m.count(); !m.ended && c.outputs > 0 &&
			(c.outputs == m.limits.outputs || c.bytes+len(out.Bytes) > m.limits.bytes); c = m.count() {
			m.drop()
		}
	}
	if !m.ended {
		m.list = append(m.list, entry{ev: ev})
	}
}

func (m *model) drop() {
	for i, e := range m.list {
		lost, ok := e.ev.(messages.OutputDelta)
		if !ok {
			continue
		}
		end := lost.Offset + int64(len(lost.Bytes))
		for j, before := range m.list[:i] {
			g, ok := before.ev.(messages.Gap)
			if ok && before.lost && g.Process == lost.Process && g.End == lost.Offset {
				g.End, g.Deltas = end, g.Deltas+1
				m.list[j].ev = g
				m.list = append(m.list[:i], m.list[i+1:]...)
				m.dropped++
				return
			}
		}
		if m.count().gaps == m.limits.gaps {
			m.ended = true
			return
		}
		m.list[i] = entry{messages.Gap{Origin: lost.Origin, First: lost.Offset, End: end, Deltas: 1}, true}
		m.dropped++
		return
	}
}

func (m *model) count() (c limits) {
	for _, e := range m.list {
		out, isOutput := e.ev.(messages.OutputDelta)
		switch {
		case isOutput:
			c.outputs++
			c.bytes += len(out.Bytes)
		case e.lost:
			c.gaps++
		default:
			c.lifecycle++
		}
	}
	return c
}

// reader checks what a subscriber may rely on, whatever the model says.
type reader struct {
	last int                          // number of the event read last
	next map[messages.ProcessID]int64 // offset of the byte that must come next
}

func (r *reader) read(t *rapid.T, ev messages.Event) {
	if n := numberOf(ev); n <= r.last {
		t.Fatalf("event %d came behind event %d", n, r.last)
	}
	r.last = numberOf(ev)
	first, end := int64(0), int64(0)
	switch ev := ev.(type) {
	case messages.OutputDelta:
		first, end = ev.Offset, ev.Offset+int64(len(ev.Bytes))
	case messages.Gap:
		first, end = ev.First, ev.End
	default:
		return
	}
	p := ev.From().Process
	if first != r.next[p] {
		t.Fatalf("process %d: got bytes from %d, want from %d", p, first, r.next[p])
	}
	r.next[p] = end
}

// machine publishes and reads at random and compares the subscription with the model.
type machine struct {
	bus       *Bus
	sub       *Subscription
	model     model
	reader    reader
	published int
	written   map[messages.ProcessID]int64
}

func newMachine(t *rapid.T) *machine {
	m := &machine{bus: New(Options{}), reader: reader{next: map[messages.ProcessID]int64{}},
		written: map[messages.ProcessID]int64{}}
	var err error
	if m.sub, err = m.bus.Subscribe(Filter{}, SubscribeOptions{}); err != nil {
		t.Fatal(err)
	}
	m.model.limits = limits{
		outputs:   rapid.IntRange(1, 6).Draw(t, "outputs"),
		bytes:     rapid.IntRange(8, 40).Draw(t, "bytes"),
		lifecycle: rapid.IntRange(1, 8).Draw(t, "lifecycle"),
		gaps:      rapid.IntRange(1, 4).Draw(t, "gaps"),
	}
	m.sub.queue.limits = m.model.limits
	return m
}

func (m *machine) publish(t *rapid.T, make func(messages.Origin) messages.Event) {
	m.published++
	ev := make(origin(messages.ProcessID(rapid.IntRange(1000, 1004).Draw(t, "process")), m.published))
	m.bus.Publish(ev)
	m.model.publish(ev)
}

func (m *machine) output(t *rapid.T) {
	m.publish(t, func(o messages.Origin) messages.Event {
		d := output(o.Process, m.published, m.written[o.Process], rapid.IntRange(0, 8).Draw(t, "size"))
		m.written[o.Process] += int64(len(d.Bytes))
		return d
	})
}

func (m *machine) lifecycle(t *rapid.T) {
	m.publish(t, func(o messages.Origin) messages.Event { return messages.ExecNotice{Origin: o} })
}

// relayedGap publishes a gap somebody else has seen, which leaves a hole between outputs.
func (m *machine) relayedGap(t *rapid.T) {
	m.publish(t, func(o messages.Origin) messages.Event {
		g := messages.Gap{Origin: o, First: m.written[o.Process], End: m.written[o.Process] + 5, Deltas: 1}
		m.written[o.Process] = g.End
		return g
	})
}

func (m *machine) read(t *rapid.T) {
	if len(m.model.list) == 0 {
		return
	}
	got, err := m.sub.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if want := m.model.list[0].ev; !reflect.DeepEqual(got, want) {
		t.Fatalf("read %+v, want %+v", got, want)
	}
	m.model.list = m.model.list[1:]
	m.reader.read(t, got)
}

func (m *machine) check(t *rapid.T) {
	q := &m.sub.queue
	got := limits{outputs: q.outputs.count, bytes: q.bytes, lifecycle: q.lifecycle.count, gaps: q.gaps.count}
	if want := m.model.count(); got != want {
		t.Fatalf("queue holds %+v, want %+v", got, want)
	}
	if got.outputs > q.limits.outputs || got.bytes > q.limits.bytes || got.lifecycle > q.limits.lifecycle ||
		got.gaps > q.limits.gaps || len(q.open) > q.limits.gaps {
		t.Fatalf("queue holds %+v, more than its limits %+v", got, q.limits)
	}
	if dropped := m.bus.Stats().Dropped; dropped != uint64(m.model.dropped) {
		t.Fatalf("dropped %d, want %d", dropped, m.model.dropped)
	}
}

func (m *machine) finish(t *rapid.T) {
	m.bus.Close()
	for len(m.model.list) > 0 {
		m.read(t)
	}
	end := messages.ErrClosed
	if m.model.ended {
		end = messages.ErrSlowSubscriber
	} else if !reflect.DeepEqual(m.reader.next, m.written) {
		t.Fatalf("read up to %v, written up to %v", m.reader.next, m.written)
	}
	if _, err := m.sub.Next(context.Background()); !end.Is(err) {
		t.Fatalf("the end is %v, want %v", err, end)
	}
}

func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"":           m.check,
			"output":     m.output,
			"more":       m.output, // twice, so that it is the most frequent
			"lifecycle":  m.lifecycle,
			"relayedGap": m.relayedGap,
			"read":       m.read,
		})
		m.finish(t)
	})
}

func TestRingAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring[int]
		var want []int
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if r.count != len(want) {
					t.Fatalf("count %d, want %d", r.count, len(want))
				}
				for i, v := range want {
					if *r.at(i) != v {
						t.Fatalf("at %d: %d, want %d", i, *r.at(i), v)
					}
				}
			},
			"push": func(t *rapid.T) {
				v := rapid.Int().Draw(t, "v")
				r.push(v)
				want = append(want, v)
			},
			"pop": func(t *rapid.T) {
				if len(want) == 0 {
					return
				}
				if v := r.pop(); v != want[0] {
					t.Fatalf("pop %d, want %d", v, want[0])
				}
				want = want[1:]
			},
		})
	})
}
