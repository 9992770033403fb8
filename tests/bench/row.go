package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus/tests/harness"
)

// row is something that is measured, with what must hold of it.
type row struct {
	name, about string
	demand      demand
	metrics     []metric
	fresh       bool // each sample is taken in a process of its own, and one is enough
	open        opener
}

// demand says why a row is measured on demand only; empty if it always is.
type demand string

const (
	layer demand = "layer" // a layer alone
	long  demand = "long"  // it takes many minutes
)

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
	l := line{Row: name, Unit: m.unit, Limit: m.limitText(), Ours: median(o), Low: slices.Min(o), High: slices.Max(o), Verdict: kept}
	if !alone {
		l.Bare, l.Ratio, l.Low, l.High = median(b), median(ratios), slices.Min(ratios), slices.Max(ratios)
	}
	switch {
	case m.judge == inform:
		l.Verdict = "-"
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

const (
	// rowFlag makes this program take the samples of a row. It is not for users.
	rowFlag = "-row"
	// rowWait bounds how long a row takes beyond its time, and endWait how long an interrupted one.
	rowWait = 4 * time.Minute
	endWait = 10 * time.Second
)

// samples are those of both ways. Ours come first.
type samples [2][]series

// measure returns a line for each metric. The samples are taken in a process of its own, so that one row does not find what another
// has left, and one that hangs can be killed: the warden ends what it has started.
func (r row) measure(ctx context.Context, b *bench) ([]line, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, rowWait+b.lasts, errors.New("it hangs"))
	defer cancel()
	var all samples
	for began := time.Now(); len(all[0]) == 0 || r.fresh && time.Since(began) < b.lasts; {
		some, err := r.apart(ctx, b)
		if err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		all[0], all[1] = append(all[0], some[0]...), append(all[1], some[1]...)
	}
	var lines []line
	for _, m := range r.metrics {
		lines = append(lines, m.condense(strings.TrimSpace(r.name+" "+m.name), all[1], all[0]))
	}
	return lines, nil
}

// apart takes samples in a process of its own. It ends at the end of its input, so also when this one is gone.
func (r row) apart(ctx context.Context, b *bench) (all samples, err error) {
	self, err := os.Executable()
	if err != nil {
		return all, err
	}
	cmd := exec.CommandContext(ctx, self, rowFlag, r.name, b.lasts.String(), fmt.Sprint(b.quick))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us
	cmd.WaitDelay, cmd.Stderr = endWait, b.progress
	input, err := cmd.StdinPipe()
	if err != nil {
		return all, err
	}
	cmd.Cancel = input.Close
	out, err := cmd.Output()
	if err != nil {
		return all, err
	}
	return all, json.Unmarshal(out, &all)
}

// take is the main function of such a process. It handles no signals: that would cost a thread, and threads are counted.
func take(name, lasts, quick string) (err error) {
	defer failed(&err)
	must(syscall.SetNonblock(0, true)) // a read that waits must not cost a thread
	input := os.NewFile(0, "input")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	s := &scope{bench: &bench{lasts: get(time.ParseDuration(lasts)), quick: quick == "true"}}
	defer s.end()
	all := rows()
	r := all[slices.IndexFunc(all, func(r row) bool { return r.name == name })]
	return json.NewEncoder(os.Stdout).Encode(r.samples(ctx, s, r.open(ctx, s)))
}

// samples lets the ways take turns, in an order that changes: what ends beside a turn must not always be the same.
func (r row) samples(ctx context.Context, s *scope, p pair) (all samples) {
	ways := []loop{p.ours, p.bare}
	if p.bare == nil {
		ways = ways[:1]
	}
	for began, n := time.Now(), 0; n == 0 || !r.fresh && (n < 3 || time.Since(began) < s.lasts); n++ {
		for i := range ways {
			all[i] = append(all[i], series{})
		}
		for range max(p.turns, 1) {
			for _, i := range rand.Perm(len(ways)) {
				must(ctx.Err())
				ways[i](ctx, all[i][n])
			}
		}
	}
	return all
}
