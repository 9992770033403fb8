package bus

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// model is the queue as one would explain it: a list in order of publication. When it is full, its oldest output or input is
// cut.
type model struct {
	limits  limits
	list    []entry
	dropped int
	ended   bool
}

type entry struct {
	ev   messages.Event
	lost bool // a gap that the queue made itself
}

// losable says whether an event may be lost, and how much of the bound it takes.
func losable(ev messages.Event) (size int, ok bool) {
	switch ev := ev.(type) {
	case messages.OutputDelta:
		return cap(ev.Bytes), true
	case messages.TerminalInteraction:
		return messages.Weight(ev), true
	}
	return 0, false
}

func (m *model) publish(ev messages.Event) {
	if m.ended {
		return
	}
	size, ok := losable(ev)
	if !ok {
		c := m.count()
		if m.ended = c.lifecycle == m.limits.lifecycle || m.tooHeavy(ev); !m.ended {
			m.list = append(m.list, entry{ev: ev})
		}
		return
	}
	for c := m.count(); !m.ended && c.outputs > 0 && (c.outputs == m.limits.outputs || c.bytes+size > m.limits.bytes); c = m.count() {
		m.drop()
	}
	if !m.ended {
		m.list = append(m.list, entry{ev: ev})
	}
	if !m.ended && size > m.limits.bytes {
		if m.drop(); m.ended { // an event that ends the subscription is not queued
			m.list = m.list[:len(m.list)-1]
		}
	}
}

func (m *model) tooHeavy(ev messages.Event) bool {
	weight := m.count().weight
	return weight > 0 && weight+messages.Weight(ev) > m.limits.weight
}

// drop replaces the oldest event that may be lost by a gap.
func (m *model) drop() {
	i := slices.IndexFunc(m.list, func(e entry) bool { _, ok := losable(e.ev); return ok })
	lost := m.list[i].ev
	from := lost.From()
	newest := -1
	for j, before := range m.list[:i] {
		if before.lost && before.ev.From().Process == from.Process {
			newest = j
		}
	}
	if newest >= 0 {
		g := m.list[newest].ev.(messages.Gap)
		if _, ok := lost.(messages.TerminalInteraction); ok || g.Deltas > 0 && g.End == lost.(messages.OutputDelta).Offset {
			widen(&g, lost)
			m.list[newest].ev = g
			m.list = slices.Delete(m.list, i, i+1)
			m.dropped++
			return
		}
	}
	g := messages.Gap{Origin: from}
	if m.ended = m.count().gaps == m.limits.gaps || m.tooHeavy(g); m.ended {
		return
	}
	widen(&g, lost)
	m.list[i] = entry{ev: g, lost: true}
	m.dropped++
}

// widen adds a lost event to a gap.
func widen(g *messages.Gap, lost messages.Event) {
	switch lost := lost.(type) {
	case messages.OutputDelta:
		if g.Deltas++; g.Deltas == 1 {
			g.First = lost.Offset
		}
		g.End = lost.Offset + int64(len(lost.Bytes))
	case messages.TerminalInteraction:
		g.Inputs++
		g.InputBytes += int64(lost.Length)
	}
}

func (m *model) count() (c limits) {
	for _, e := range m.list {
		size, ok := losable(e.ev)
		switch {
		case ok:
			c.outputs++
			c.bytes += size
			continue
		case e.lost:
			c.gaps++
		default:
			c.lifecycle++
		}
		c.weight += messages.Weight(e.ev)
	}
	return c
}

// told is what a process has published, or what a subscriber knows about it.
type told struct {
	output     int64 // bytes
	inputs     int
	inputBytes int64
}

// reader checks the promises to a subscriber. It does not use the model.
type reader struct {
	last  int // number of the last event that was read
	told  map[messages.ProcessID]told
	input map[int]int // by the number of an event: which input of its process it is
}

func (r *reader) read(t *rapid.T, ev messages.Event) {
	if n := numberOf(ev); n <= r.last {
		t.Fatalf("event %d came behind event %d", n, r.last)
	}
	r.last = numberOf(ev)
	p := ev.From().Process
	known := r.told[p]
	switch ev := ev.(type) {
	case messages.OutputDelta:
		known.move(t, ev.Offset, ev.Offset+int64(len(ev.Bytes)))
	case messages.TerminalInteraction:
		known.inputs++
		known.inputBytes += int64(ev.Length)
		if n := r.input[r.last]; n != known.inputs {
			t.Fatalf("process %d: input %d came behind %d", p, n, known.inputs-1)
		}
	case messages.Gap:
		if ev.Deltas > 0 {
			known.move(t, ev.First, ev.End)
		}
		known.inputs += ev.Inputs
		known.inputBytes += ev.InputBytes
	}
	r.told[p] = known
}

func (k *told) move(t *rapid.T, first, end int64) {
	if first != k.output {
		t.Fatalf("got bytes from %d, want from %d", first, k.output)
	}
	k.output = end
}

// machine publishes and reads at random and compares the subscription with the model.
type machine struct {
	bus       *Bus
	sub       *Subscription
	model     model
	reader    reader
	published int
	told      map[messages.ProcessID]told
}

func newMachine(t *rapid.T) *machine {
	m := &machine{bus: New(Options{}), told: map[messages.ProcessID]told{},
		reader: reader{told: map[messages.ProcessID]told{}, input: map[int]int{}}}
	var err error
	if m.sub, err = m.bus.Subscribe(Filter{}, SubscribeOptions{}); err != nil {
		t.Fatal(err)
	}
	m.model.limits = limits{
		outputs:   rapid.IntRange(1, 6).Draw(t, "outputs"),
		bytes:     rapid.IntRange(8, 40).Draw(t, "bytes"),
		lifecycle: rapid.IntRange(1, 8).Draw(t, "lifecycle"),
		gaps:      rapid.IntRange(1, 4).Draw(t, "gaps"),
		weight:    rapid.IntRange(1, 120).Draw(t, "weight"),
	}
	m.sub.queue.limits = m.model.limits
	return m
}

func (m *machine) publish(t *rapid.T, make func(messages.Origin) messages.Event) {
	m.published++
	ev := make(origin(messages.ProcessID(rapid.IntRange(1000, 1004).Draw(t, "process")), m.published))
	m.told[ev.From().Process] = m.told[ev.From().Process]
	m.bus.Publish(ev)
	m.model.publish(ev)
}

// bytesOf makes bytes. Some have room to spare, which counts as well.
func bytesOf(t *rapid.T, most int) []byte {
	size := rapid.IntRange(0, most).Draw(t, "size")
	return make([]byte, size, size+rapid.IntRange(0, 2).Draw(t, "spare"))
}

func (m *machine) output(t *rapid.T) {
	m.publish(t, func(o messages.Origin) messages.Event {
		k := m.told[o.Process]
		d := messages.OutputDelta{Origin: o, Stream: messages.StreamPTY, Offset: k.output, Bytes: bytesOf(t, 8)}
		k.output += int64(len(d.Bytes))
		m.told[o.Process] = k
		return d
	})
}

// input publishes inputs. Some of them are larger than the bound.
func (m *machine) input(t *rapid.T) {
	m.publish(t, func(o messages.Origin) messages.Event {
		k := m.told[o.Process]
		e := messages.TerminalInteraction{Origin: o, Input: bytesOf(t, 30), Length: rapid.IntRange(0, 30).Draw(t, "length")}
		k.inputs++
		k.inputBytes += int64(e.Length)
		m.told[o.Process], m.reader.input[m.published] = k, k.inputs
		return e
	})
}

func (m *machine) lifecycle(t *rapid.T) {
	m.publish(t, func(o messages.Origin) messages.Event {
		return messages.ExecNotice{Origin: o, Text: rapid.StringN(0, 9, 9).Draw(t, "text")}
	})
}

// relayedGap publishes a gap that was found elsewhere. It leaves a hole between outputs.
func (m *machine) relayedGap(t *rapid.T) {
	m.publish(t, func(o messages.Origin) messages.Event {
		k := m.told[o.Process]
		g := messages.Gap{Origin: o, First: k.output, End: k.output + 5, Deltas: 1}
		k.output = g.End
		m.told[o.Process] = k
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
	got := limits{outputs: q.outputs.count, bytes: q.bytes, lifecycle: q.lifecycle.count, gaps: q.gaps.count, weight: q.weight}
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
	} else if !reflect.DeepEqual(m.reader.told, m.told) {
		t.Fatalf("read %v, published %v", m.reader.told, m.told)
	}
	if _, err := m.sub.Next(context.Background()); !errors.Is(err, end) {
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
			"input":      m.input,
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
