package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/tests/harness"
)

// row is something that is measured, with what must hold of it.
type row struct {
	name, about string
	layer       bool // a layer alone: on demand
	metrics     []metric
	least       int // the fewest samples; 0 means 3
	open        opener
}

// opener prepares a row. What it starts is ended by the scope. Openers and loops give up by must.
type opener func(ctx context.Context, s *scope) pair

// pair are the two ways of doing the same thing. They take turns; a sample is so many turns of each.
type pair struct {
	bare, ours loop // bare is nil if there is nothing to compare with
	turns      int  // 0 means 1
}

// loop does the thing once, or a few times, and notes what it took.
type loop func(ctx context.Context, took series)

// series are measured numbers, by name. The empty name is for what the row is about.
type series map[string][]float64

func (s series) add(name string, value float64) { s[name] = append(s[name], value) }

// timed is a loop that notes how many microseconds something takes.
func timed(do func(ctx context.Context) error) loop {
	return func(ctx context.Context, took series) {
		began := time.Now()
		must(do(ctx))
		took.add("", micros(time.Since(began)))
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func millis(d time.Duration) float64 { return micros(d) / 1e3 }

// failure ends the measurement of a row.
type failure struct{ error }

// must gives up if there is an error. It is for the goroutine of a row.
func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func get[T any](value T, err error) T {
	must(err)
	return value
}

// failed turns a failure back into an error.
func failed(err *error) {
	switch cause := recover().(type) {
	case nil:
	case failure:
		*err = cause.error
	default:
		panic(cause)
	}
}

// metric is one number of a row: a quantile of one series in each sample, and then the median over all samples.
type metric struct {
	name  string
	of    string  // the series; what the bare way does not have is not compared
	at    float64 // the quantile; 0 means the median
	unit  unit
	judge judge
	limit float64
}

// tail is the row's 99th percentile, for information.
var tail = metric{name: "p99", at: 0.99}

// judge says how a limit is meant.
type judge int

const (
	inform   judge = iota // no limit
	atMost                // our number divided by the bare one may not exceed it
	atLeast               // that ratio may not be below it
	moreMost              // our number less the bare one may not exceed it
	most                  // our number may not exceed it
)

func (m metric) quantile(s series) float64 {
	at := m.at
	if at == 0 {
		at = 0.5
	}
	return harness.Quantile(s[m.of], at)
}

// condense makes a line of the samples of both ways.
func (m metric) condense(name string, bare, ours []series) line {
	var b, o, ratios []float64
	alone := bare == nil || bare[0][m.of] == nil
	for n := range ours {
		o = append(o, m.quantile(ours[n]))
		if !alone {
			b = append(b, m.quantile(bare[n]))
			ratios = append(ratios, o[n]/b[n])
		}
	}
	l := line{Row: name, Unit: m.unit, Limit: m.limitText(), Ours: median(o), Low: slices.Min(o), High: slices.Max(o), alone: alone}
	if !l.alone {
		l.Bare, l.Ratio, l.Low, l.High = median(b), median(ratios), slices.Min(ratios), slices.Max(ratios)
	}
	l.Verdict = kept
	switch {
	case m.judge == inform:
		l.Verdict = informed
	case m.judge == atMost && l.Ratio > m.limit, m.judge == atLeast && l.Ratio < m.limit,
		m.judge == moreMost && l.Ours-l.Bare > m.limit, m.judge == most && l.Ours > m.limit:
		l.Verdict = missed
	}
	return l
}

func median(values []float64) float64 { return harness.Quantile(values, 0.5) }

// bench is one run.
type bench struct {
	lasts    time.Duration // of a row
	quick    bool
	progress *harness.Progress
	at       string // the row under way
}

// scope is what an opener gets: it ends what was started for a row.
type scope struct {
	*bench
	ends []func()
}

// after calls a function when the row has been measured; the last one comes first.
func (s *scope) after(end func()) { s.ends = append(s.ends, end) }

func (s *scope) end() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}

// some returns a number: the full one, or the one for -quick.
func (s *scope) some(full, quick int) int {
	if s.quick {
		return quick
	}
	return full
}

// Bounds for a program that hangs, or a read that nothing wakes.
const (
	rowWait = 4 * time.Minute
	// endWait bounds how long an interrupted row may take to end what it has begun.
	endWait = 10 * time.Second
)

// measure returns a line for each metric. A row that hangs is left alone: the blocking read of a terminal, which the bare ways
// use, cannot be ended from here.
func (r row) measure(ctx context.Context, b *bench) ([]line, error) {
	var lines []line
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		s := &scope{bench: b}
		defer s.end()
		defer failed(&err)
		lines = r.samples(ctx, s, r.open(ctx, s))
	}()
	interrupted := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		time.Sleep(endWait)
		close(interrupted)
	})()
	select {
	case err := <-done:
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		return lines, err
	case <-interrupted:
		return nil, fmt.Errorf("it did not end within %s of the interruption", endWait)
	case <-time.After(rowWait + b.lasts):
		return nil, fmt.Errorf("it hangs: it did not come to its end in %s", rowWait+b.lasts)
	}
}

// samples lets the ways take turns, in an order that changes: what ends beside a turn must not always be the same.
func (r row) samples(ctx context.Context, s *scope, p pair) []line {
	ways, taken := []loop{p.ours, p.bare}, [2][]series{}
	if p.bare == nil {
		ways = ways[:1]
	}
	least := r.least
	if least == 0 {
		least = 3
	}
	for began, n := time.Now(), 0; n < least || time.Since(began) < s.lasts; n++ {
		for i := range ways {
			taken[i] = append(taken[i], series{})
		}
		for range max(p.turns, 1) {
			for _, i := range rand.Perm(len(ways)) {
				must(ctx.Err())
				ways[i](ctx, taken[i][n])
			}
		}
		s.progress.At("%s: %d samples", s.at, n+1)
	}
	var lines []line
	for _, m := range r.metrics {
		lines = append(lines, m.condense(strings.TrimSpace(r.name+" "+m.name), taken[1], taken[0]))
	}
	return lines
}
