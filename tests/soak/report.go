package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/execbus/execbus/tests/harness"
)

// maxFaults bounds the complaints that are kept. All are counted, but a run with so many ends early.
const maxFaults = 100

// faults collects complaints. It is safe for concurrent use.
type faults struct {
	say io.Writer // gets a line for each complaint

	mu    sync.Mutex
	list  []string
	total int
}

func (f *faults) add(where, format string, args ...any) {
	text := fmt.Sprintf("BROKEN at %s: %s: %s", time.Now().Format(time.TimeOnly), where, fmt.Sprintf(format, args...))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.total++; len(f.list) < maxFaults {
		f.list = append(f.list, text)
		fmt.Fprintln(f.say, text)
	}
}

func (f *faults) tooMany() bool {
	_, total := f.all()
	return total >= maxFaults
}

// all returns the complaints that were kept, and the number of all complaints.
func (f *faults) all() ([]string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list), f.total
}

// tally counts events, by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int64
}

func (t *tally) plus(name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int64{}
	}
	t.counts[name] += n
}

func (t *tally) all() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

// line is one quantity: the most under load, and numbers of quiet points.
type line struct {
	Quantity string `json:"quantity"`
	Peak     int64  `json:"peak"`
	Baseline int64  `json:"baseline"`
	Early    int64  `json:"early"`
	Late     int64  `json:"late"`
	Worst    int64  `json:"worst"`
	Last     int64  `json:"last"`
	Allowed  *int64 `json:"allowed,omitempty"`
	Verdict  string `json:"verdict"`

	show func(int64) string
}

// report is the result of a run.
type report struct {
	Title       string           `json:"title"`
	Seed        uint64           `json:"seed"`
	Elapsed     float64          `json:"elapsedSeconds"`
	QuietPoints int              `json:"quietPoints"`
	Lines       []line           `json:"lines"`
	Broken      int              `json:"broken"`
	Faults      []string         `json:"faults,omitempty"`
	Interrupted bool             `json:"interrupted,omitempty"`
	Counts      map[string]int64 `json:"counts"`
}

func (s *soak) report(interrupted bool) *report {
	r := &report{Title: s.title(), Seed: s.seed, Elapsed: time.Since(s.progress.Began).Seconds(), QuietPoints: len(s.judge.points),
		Interrupted: interrupted, Counts: s.host.tally.all()}
	r.Faults, r.Broken = s.faults.all()
	for q := range quantities {
		l := line{Quantity: facts[q].name, Peak: s.judge.peaks[q], Verdict: "-", show: facts[q].show}
		if values := s.judge.of(q); len(values) > 0 {
			quarter := (len(values) + 3) / 4
			l.Baseline, l.Worst, l.Last = values[0], slices.Max(values), values[len(values)-1]
			l.Early, l.Late = harness.Quantile(values[:quarter], 0.5), harness.Quantile(values[len(values)-quarter:], 0.5)
		}
		if limit, judged := s.judge.limit(q); judged {
			l.Allowed, l.Verdict = &limit, "ok"
			if l.Worst > limit {
				l.Verdict = "DRIFT"
			}
		}
		r.Lines = append(r.Lines, l)
	}
	return r
}

func (r *report) exitCode() int {
	switch {
	case r.Broken > 0:
		return harness.ExitBroken
	case r.Interrupted:
		return harness.ExitFailed
	default:
		return harness.ExitOK
	}
}

func (r *report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%.0f s, %d quiet points\n\n", r.Title, r.Elapsed, r.QuietPoints)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "QUANTITY\tPEAK\tBASELINE\tEARLY\tLATE\tWORST\tLAST\tALLOWED\tVERDICT")
	for _, l := range r.Lines {
		cells := []string{l.Quantity}
		for _, v := range []int64{l.Peak, l.Baseline, l.Early, l.Late, l.Worst, l.Last} {
			cells = append(cells, l.show(v))
		}
		allowed := "-"
		if l.Allowed != nil {
			allowed = l.show(*l.Allowed)
		}
		fmt.Fprintln(table, strings.Join(append(cells, allowed, l.Verdict), "\t"))
	}
	_ = table.Flush()
	for _, name := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(w, "%12d %s\n", r.Counts[name], name)
	}
	text := "\nNothing drifted, and no invariant was broken"
	if r.Broken > 0 {
		text = fmt.Sprintf("\n%s\nBROKEN: %d complaints", strings.Join(r.Faults, "\n"), r.Broken)
	}
	if r.Interrupted {
		text += ", as far as this run came before it was interrupted"
	}
	_, err := fmt.Fprintf(w, "%s (seed %d).\n", text, r.Seed)
	return err
}
