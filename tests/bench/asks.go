package main

import (
	"context"
	"fmt"
	"time"

	"github.com/execbus/execbus/messages"
)

func askCase() benchCase {
	return benchCase{name: "ask", about: "Session.Read of one byte of a live process: supervisor, process and back",
		metrics: []metric{
			{name: "median", unit: microseconds, judge: valueMost, limit: 25, when: "on a quiet machine"},
			{name: "p99", unit: microseconds},
		}, run: measureAsks}
}

func measureAsks(ctx context.Context, h *harness) ([]value, error) {
	cat, err := newSessionEcho(ctx)
	if err != nil {
		return nil, err
	}
	defer cat.close()
	read := messages.ReadOutput{Process: cat.process, Tail: 1}
	count := h.some(20_000, 4_000)
	var medians, tails []float64
	for pair := range h.pairs {
		took := make([]float64, 0, count)
		for range count {
			began := time.Now()
			page, err := cat.session.Read(ctx, read)
			if err != nil {
				return nil, err
			}
			took = append(took, micros(time.Since(began)))
			if len(page.Chunks) != 1 {
				return nil, fmt.Errorf("a read returned %d chunks", len(page.Chunks))
			}
		}
		medians, tails = append(medians, median(took)), append(tails, quantile(took, 0.99))
		h.say("  sample %d/%d: median %.1f µs, p99 %.1f µs", pair+1, h.pairs, medians[pair], tails[pair])
	}
	return []value{single(medians), single(tails)}, nil
}
