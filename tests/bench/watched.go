package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/execbus/execbus"
)

// watchers are how many subscribers read all events of the runtime in the rows of exec-watched.
var watchers = []int{100, 1000}

func watchedCase() benchCase {
	c := benchCase{name: "exec-watched", about: "exec-result with so many lossy subscribers of everything, compared with one",
		run: compareWatched}
	for _, count := range watchers {
		m := metric{name: fmt.Sprintf("%d", count), unit: microseconds}
		if count == 1000 {
			m.judge, m.limit = atMost, 1.5
		}
		c.metrics = append(c.metrics, m, metric{name: fmt.Sprintf("%d p99", count), unit: microseconds})
	}
	return c
}

func compareWatched(ctx context.Context, h *harness) (values []value, err error) {
	for _, count := range watchers {
		one, err := newAudience(ctx, 1)
		if err != nil {
			return nil, err
		}
		many, err := newAudience(ctx, count)
		if err != nil {
			one.close()
			return nil, err
		}
		v, err := compareTurns(ctx, h, h.some(100, 20), one.once, many.once)
		one.close()
		many.close()
		if err != nil {
			return nil, err
		}
		values = append(values, v...)
	}
	return values, nil
}

// audience is a runtime with many readers of its events, each in a goroutine.
type audience struct {
	*crowd
	leave context.CancelFunc
	all   sync.WaitGroup
}

func newAudience(ctx context.Context, count int) (*audience, error) {
	c, err := newCrowd(ctx, 0, false)
	if err != nil {
		return nil, err
	}
	a := &audience{crowd: c}
	reading, leave := context.WithCancel(ctx)
	a.leave = leave
	for range count {
		sub, err := c.execs.session.Events(execbus.Watch{})
		if err != nil {
			a.close()
			return nil, err
		}
		a.all.Go(func() {
			defer sub.Close()
			for {
				if _, err := sub.Next(reading); err != nil {
					return
				}
			}
		})
	}
	return a, nil
}

func (a *audience) close() {
	a.leave()
	a.all.Wait()
	a.crowd.close()
}
