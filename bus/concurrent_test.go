package bus

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/execbus/execbus/messages"
)

// window is a publisher's flow control: a fixed number of credits, each of which must come back once.
type window struct {
	free     chan struct{}
	taken    atomic.Int64
	returned atomic.Int64
}

func newWindow(size int) *window { return &window{free: make(chan struct{}, size)} }

func (w *window) take() *Credit {
	w.free <- struct{}{}
	w.taken.Add(1)
	return NewCredit(func() {
		w.returned.Add(1)
		<-w.free
	})
}

// publishProcess publishes a process from start to end, in batches of three deltas a credit.
func publishProcess(b *Bus, w *window, p messages.ProcessID, batches int) {
	number, offset := 1, int64(0)
	b.Publish(messages.ExecStarted{Origin: origin(p, number)})
	for range batches {
		c := w.take()
		for range 3 {
			number++
			b.PublishOutput(output(p, number, offset, 2), c)
			offset += 2
		}
		c.Release()
	}
	b.Publish(messages.ExecEnded{Origin: origin(p, number+1), Total: offset})
}

// follow reads until the end, or closes the subscription after so many events. It checks that the events of each process are
// in order and complete, from the first event that it sees.
func follow(t *testing.T, s *Subscription, isLossless bool, events int) {
	defer s.Close()
	last := map[messages.ProcessID]int{}
	next := map[messages.ProcessID]int64{}
	for ev, err := range s.All(t.Context()) {
		if err != nil {
			if !errors.Is(err, messages.ErrClosed) {
				t.Error(err)
			}
			return
		}
		if events--; events == 0 {
			return
		}
		p := ev.From().Process
		if numberOf(ev) <= last[p] {
			t.Errorf("process %d: event %d after event %d", p, numberOf(ev), last[p])
		}
		last[p] = numberOf(ev)
		first, end := next[p], next[p]
		switch ev := ev.(type) {
		case messages.OutputDelta:
			first, end = ev.Offset, ev.Offset+int64(len(ev.Bytes))
		case messages.Gap:
			first, end = ev.First, ev.End
			if isLossless {
				t.Errorf("a lossless subscription has lost %+v", ev)
			}
		case messages.ExecEnded:
			first = ev.Total
		}
		if seen, ok := next[p]; ok && first != seen {
			t.Errorf("process %d: %d after %d", p, first, seen)
		}
		next[p] = end
	}
}

// churn subscribes, reads a little, closes the subscription, and repeats this until the bus is closed.
func churn(t *testing.T, b *Bus, isLossless bool) {
	for i := 0; ; i++ {
		filter := Filter{Sessions: [][]messages.SessionID{nil, {"s"}, {"t", "s", ""}}[i/3%3]}
		s, err := b.Subscribe(filter, SubscribeOptions{Lossless: isLossless})
		if err != nil {
			wantError(t, err, messages.ErrClosed)
			return
		}
		follow(t, s, isLossless, 1+i%3)
	}
}

func TestManyPublishersAndSubscribers(t *testing.T) {
	const publishers, readers, batches = 8, 16, 150
	b := New(Options{})
	w := newWindow(publishers * 2)
	random := rand.New(rand.NewPCG(1, 2))
	var reading, publishing sync.WaitGroup

	for i := range readers {
		o := SubscribeOptions{Lossless: i%2 == 0, Outputs: 1 + random.IntN(20)}
		s := subscribe(t, b, Filter{}, o)
		events := 0 // no limit
		if i%4 > 1 {
			events = 1 + random.IntN(publishers*batches)
		}
		reading.Go(func() { follow(t, s, o.Lossless, events) })
	}
	for i := range publishers {
		publishing.Go(func() { publishProcess(b, w, messages.ProcessID(1000+i), batches) })
	}
	for i := range 2 {
		reading.Go(func() { churn(t, b, i == 0) })
	}
	publishing.Wait()
	b.Close()
	reading.Wait()
	if w.taken.Load() != publishers*batches || w.returned.Load() != w.taken.Load() {
		t.Errorf("%d credits taken, %d returned", w.taken.Load(), w.returned.Load())
	}
}

// The bus is closed under full load: no goroutine gets stuck, and all credits come back.
func TestCloseBusUnderLoad(t *testing.T) {
	for round := range 20 {
		b := New(Options{})
		w := newWindow(4)
		var running sync.WaitGroup
		closing := make(chan struct{})
		for i := range 4 {
			s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: i%2 == 0})
			running.Go(func() {
				defer s.Close()
				n := 0
				for _, err := range s.All(t.Context()) {
					if err != nil {
						return
					}
					if n++; n == 10*round && i == 0 {
						close(closing)
					}
				}
			})
			running.Go(func() { publishProcess(b, w, messages.ProcessID(1000+i), 20) })
		}
		if round > 0 {
			<-closing
		}
		b.Close()
		running.Wait()
		if w.returned.Load() != w.taken.Load() {
			t.Fatalf("%d credits taken, %d returned", w.taken.Load(), w.returned.Load())
		}
	}
}

func TestCloseWhilePublishing(t *testing.T) {
	b := newBus(t)
	for range 200 {
		w := newWindow(1)
		s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true})
		var running sync.WaitGroup
		running.Go(func() { publishProcess(b, w, 1000, 3) })
		running.Go(s.Close)
		running.Wait()
		if w.returned.Load() != 3 {
			t.Fatalf("%d of 3 credits returned", w.returned.Load())
		}
	}
}
