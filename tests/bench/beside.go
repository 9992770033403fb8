package main

import (
	"context"
	"fmt"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// besides are the numbers of idle shells that live beside a command. Their rows show how much they slow it down.
var besides = []int{100, fullShells}

func besideCases() []benchCase {
	return []benchCase{
		besideCase("exec-beside", "exec-result beside idle shells in the same runtime, compared with a runtime that has none", 1.1, compareWithIdle),
		besideCase("exec-beside-direct", "the same where the host forks, compared with os/exec", 1.5, compareDirect),
	}
}

func besideCase(name, about string, limit float64, compare func(context.Context, *harness, int) ([]value, error)) benchCase {
	c := benchCase{name: name, about: about, run: func(ctx context.Context, h *harness) (values []value, err error) {
		for _, count := range besides {
			count = h.some(count, count/10)
			if err := roomForShells(count); err != nil {
				return nil, err
			}
			v, err := compare(ctx, h, count)
			if err != nil {
				return nil, err
			}
			values = append(values, v...)
		}
		return values, nil
	}}
	for _, count := range besides {
		c.metrics = append(c.metrics, metric{name: fmt.Sprintf("%d", count), unit: microseconds, judge: atMost, limit: limit},
			metric{name: fmt.Sprintf("%d p99", count), unit: microseconds})
	}
	return c
}

// compareWithIdle alternates between runtimes with and without idle shells.
func compareWithIdle(ctx context.Context, h *harness, count int) ([]value, error) {
	alone, err := newCrowd(ctx, 0, false)
	if err != nil {
		return nil, err
	}
	defer alone.close()
	crowded, err := newCrowd(ctx, count, false)
	if err != nil {
		return nil, err
	}
	defer crowded.close()
	return compareTurns(ctx, h, h.some(200, 40), alone.once, crowded.once)
}

// compareDirect alternates between os/exec and commands that the host forks. A runtime without shells would be no comparison:
// shells of others cost a host that forks as much as its own.
func compareDirect(ctx context.Context, h *harness, count int) ([]value, error) {
	crowded, err := newCrowd(ctx, count, true)
	if err != nil {
		return nil, err
	}
	defer crowded.close()
	bare := func(context.Context) (time.Duration, error) { return bareExecs(1, crowded.execs.env) }
	return compareTurns(ctx, h, h.some(200, 40), bare, crowded.once)
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
	spawner ptyio.Spawner // nil for the runtime's own
	runtime *execbus.Runtime
	execs   *execs
}

func newCrowd(ctx context.Context, idle int, direct bool) (*crowd, error) {
	c := &crowd{}
	options := execbus.Options{MaxProcesses: idle + 2*atOnce}
	if direct {
		spawner, err := sandbox.New(sandbox.Options{Direct: true})
		if err != nil {
			return nil, err
		}
		c.spawner, options.Spawner = spawner, spawner
	}
	runtime, err := execbus.Start(options)
	if err != nil {
		c.close()
		return nil, err
	}
	c.runtime = runtime
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
	if c.runtime != nil {
		_ = shutDown(c.runtime)
	}
	if c.spawner != nil {
		_ = c.spawner.Close()
	}
}
