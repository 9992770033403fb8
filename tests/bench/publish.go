package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// publishBurst is how many events are published before the subscribers read them; their queues hold more.
const publishBurst = 32

// audiences are the numbers of subscribers.
var audiences = []int{1, 100, 10_000}

func publishCase() benchCase {
	c := benchCase{name: "publish", about: "an output event to subscribers that want it, for each of them", run: measurePublishes}
	for _, subscribers := range audiences {
		c.metrics = append(c.metrics, metric{name: fmt.Sprintf("to %d", subscribers), unit: nanoseconds})
	}
	return c
}

func measurePublishes(ctx context.Context, h *harness) ([]value, error) {
	var values []value
	for _, subscribers := range audiences {
		hall, err := newHall(subscribers)
		if err != nil {
			return nil, err
		}
		v, err := hall.measure(ctx, h)
		hall.bus.Close()
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// hall is a bus and its subscribers.
type hall struct {
	bus   *bus.Bus
	subs  []*bus.Subscription
	event messages.OutputDelta
}

func newHall(subscribers int) (*hall, error) {
	l := &hall{bus: bus.New(bus.Options{}), event: messages.OutputDelta{
		Origin: messages.Origin{Session: "s", Process: 1000, Call: "c", At: time.Now()}, Stream: messages.StreamStdout,
		Bytes: bytes.Repeat([]byte{'x'}, 100)}}
	for range subscribers {
		sub, err := l.bus.Subscribe(bus.Filter{}, bus.SubscribeOptions{})
		if err != nil {
			l.bus.Close()
			return nil, err
		}
		l.subs = append(l.subs, sub)
	}
	return l, nil
}

func (l *hall) measure(ctx context.Context, h *harness) (value, error) {
	turns := max(h.some(2_000_000, 400_000)/(publishBurst*len(l.subs)), 3)
	var samples []float64
	for range h.pairs {
		var took []float64
		for turn := range turns + 1 {
			one := l.burst()
			if err := l.read(ctx); err != nil {
				return value{}, err
			}
			if turn > 0 || len(samples) > 0 { // in the very first turn the queues grow
				took = append(took, float64(one.Nanoseconds())/float64(publishBurst*len(l.subs)))
			}
		}
		samples = append(samples, median(took))
	}
	h.say("  to %d: %.1f ns for each", len(l.subs), median(samples))
	return single(samples), nil
}

func (l *hall) burst() time.Duration {
	began := time.Now()
	for range publishBurst {
		l.event.Seq++
		l.bus.PublishOutput(l.event, nil)
		l.event.Offset += int64(len(l.event.Bytes))
	}
	return time.Since(began)
}

// read lets every subscriber read all events.
func (l *hall) read(ctx context.Context) error {
	for _, sub := range l.subs {
		for range publishBurst {
			event, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			if event.Kind() != messages.KindOutputDelta {
				return fmt.Errorf("a subscriber got a %s", event.Kind())
			}
		}
	}
	return nil
}
