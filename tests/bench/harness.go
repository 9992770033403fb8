package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// benchCase is one comparison. run returns one value for each metric.
type benchCase struct {
	name    string
	about   string
	metrics []metric
	run     func(ctx context.Context, h *harness) ([]value, error)
}

// metric is one number of a case, with its limit.
type metric struct {
	name  string
	unit  unit
	judge judge
	limit float64
	when  string // where the limit holds, if not everywhere
}

// judge says how a limit is meant.
type judge int

const (
	inform    judge = iota // no limit
	atMost                 // the ratio may not exceed it
	atLeast                // the ratio may not be below it
	valueMost              // our value may not exceed it
)

func (m metric) kept(v value) bool {
	switch m.judge {
	case atMost:
		return v.ratio <= m.limit
	case atLeast:
		return v.ratio >= m.limit
	case valueMost:
		return v.ours <= m.limit
	default:
		return true
	}
}

// value is a measured metric.
type value struct {
	bare, ours, ratio float64 // medians
	low, high         float64 // of the pairs' ratios, or of our values if there is no bare
	alone             bool    // there is no bare side
}

// harness holds what all cases need.
type harness struct {
	pairs    int
	quick    bool
	progress io.Writer
	began    time.Time
}

func newHarness(a arguments, progress io.Writer) *harness {
	h := &harness{pairs: a.pairs, quick: a.quick, progress: progress, began: time.Now()}
	if h.pairs == 0 {
		h.pairs = 9
		if h.quick {
			h.pairs = 3
		}
	}
	return h
}

func (h *harness) say(format string, args ...any) {
	fmt.Fprintf(h.progress, "%6.1fs  %s\n", time.Since(h.began).Seconds(), fmt.Sprintf(format, args...))
}

// some returns a number: the full one, or the one for -quick.
func (h *harness) some(full, quick int) int {
	if h.quick {
		return quick
	}
	return full
}

// collect takes all pairs and condenses them into values.
func (h *harness) collect(ctx context.Context, take func(ctx context.Context, pair int) (bare, ours []float64, err error)) ([]value, error) {
	var bare, ours, ratios [][]float64 // by metric
	for pair := range h.pairs {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		both, err := bounded(ctx, pairWait, func() (s [2][]float64, err error) {
			s[0], s[1], err = take(ctx, pair)
			return s, err
		})
		if err != nil {
			return nil, err
		}
		b, o := both[0], both[1]
		if pair == 0 {
			bare, ours, ratios = make([][]float64, len(o)), make([][]float64, len(o)), make([][]float64, len(o))
		}
		for m := range o {
			bare[m], ours[m] = append(bare[m], b[m]), append(ours[m], o[m])
			ratios[m] = append(ratios[m], o[m]/b[m])
		}
		h.say("  pair %d/%d: ratio %s", pair+1, h.pairs, lastOf(ratios))
	}
	values := make([]value, len(ours))
	for m := range values {
		values[m] = value{bare: median(bare[m]), ours: median(ours[m]), ratio: median(ratios[m]),
			low: slices.Min(ratios[m]), high: slices.Max(ratios[m])}
	}
	return values, nil
}

// Bounds for a program that hangs, or a read that nothing wakes.
const (
	pairWait = 3 * time.Minute
	caseWait = time.Hour
	// endWait bounds how long an interrupted case may take to end what it has begun.
	endWait = 10 * time.Second
)

// bounded calls do in a goroutine. If the goroutine takes too long, it is left alone: the blocking read of a terminal, which
// the bare ways use, cannot be ended from here.
func bounded[T any](ctx context.Context, most time.Duration, do func() (T, error)) (T, error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := do()
		done <- outcome{result, err}
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	var interrupted <-chan time.Time
	cancelled := ctx.Done()
	for {
		select {
		case o := <-done:
			return o.result, o.err
		case <-cancelled:
			cancelled, interrupted = nil, time.After(endWait)
		case <-interrupted:
			var nothing T
			return nothing, fmt.Errorf("it did not end within %s of the interruption", endWait)
		case <-timer.C:
			var nothing T
			return nothing, fmt.Errorf("it hangs: it did not come to its end in %s", most)
		}
	}
}

func lastOf(ratios [][]float64) string {
	text := ""
	for _, r := range ratios {
		text += fmt.Sprintf("%.2f ", r[len(r)-1])
	}
	return text
}

// single is a value without a bare side.
func single(samples []float64) value {
	return value{ours: median(samples), low: slices.Min(samples), high: slices.Max(samples), alone: true}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is the nearest-rank quantile; the median of an even number is the mean of the middle two.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); q == 0.5 && n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
