package main

import (
	"context"
	"fmt"
	"time"

	"github.com/execbus/execbus"
)

// besides are the numbers of idle shells that live beside a command. Their rows show how much they slow it down.
var besides = []int{100, fullShells}

func besideCase() benchCase {
	c := benchCase{name: "exec-beside", about: "exec-result beside idle shells in the same runtime, compared with a runtime that has none",
		run: compareBeside}
	for _, count := range besides {
		c.metrics = append(c.metrics, metric{name: fmt.Sprintf("%d", count), unit: microseconds, judge: atMost, limit: 1.1},
			metric{name: fmt.Sprintf("%d p99", count), unit: microseconds})
	}
	return c
}

// compareBeside alternates between runtimes with and without idle shells.
func compareBeside(ctx context.Context, h *harness) (values []value, err error) {
	for _, count := range besides {
		v, err := compareWithIdle(ctx, h, h.some(count, count/10))
		if err != nil {
			return nil, err
		}
		values = append(values, v...)
	}
	return values, nil
}

func compareWithIdle(ctx context.Context, h *harness, count int) ([]value, error) {
	if err := roomForShells(count); err != nil {
		return nil, err
	}
	alone, err := newCrowd(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer alone.close()
	crowded, err := newCrowd(ctx, count)
	if err != nil {
		return nil, err
	}
	defer crowded.close()
	return compareTurns(ctx, h, h.some(200, 40), alone.once, crowded.once)
}

// compareTurns alternates between two ways, and compares their medians and their 99th percentiles.
func compareTurns(ctx context.Context, h *harness, turns int, bare, ours func(context.Context) (time.Duration, error)) ([]value, error) {
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		var took [2][]float64
		for range turns {
			for i, way := range []func(context.Context) (time.Duration, error){bare, ours} {
				t, err := way(ctx)
				if err != nil {
					return nil, nil, err
				}
				took[i] = append(took[i], micros(t))
			}
		}
		return []float64{median(took[0]), quantile(took[0], 0.99)}, []float64{median(took[1]), quantile(took[1], 0.99)}, nil
	})
}

// crowd is a runtime with idle shells in one session, and another session that runs commands.
type crowd struct {
	runtime *execbus.Runtime
	execs   *execs
}

func newCrowd(ctx context.Context, idle int) (*crowd, error) {
	runtime, err := execbus.Start(execbus.Options{MaxProcesses: idle + 2*atOnce})
	if err != nil {
		return nil, err
	}
	c := &crowd{runtime: runtime}
	if err = c.fill(ctx, idle); err == nil {
		c.execs, err = newExecs(ctx, runtime, 1)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *crowd) fill(ctx context.Context, idle int) error {
	if idle == 0 {
		return nil
	}
	session, err := c.runtime.OpenSession(execbus.SessionOptions{Dir: "/", MaxProcesses: idle + atOnce, WarnProcesses: idle + atOnce})
	if err != nil {
		return err
	}
	_, err = openShells(ctx, session, idle)
	return err
}

func (c *crowd) once(ctx context.Context) (time.Duration, error) {
	took, _, err := c.execs.once(ctx, 1)
	return took, err
}

func (c *crowd) close() {
	if c.execs != nil {
		c.execs.close()
	}
	_ = shutDown(c.runtime)
}
