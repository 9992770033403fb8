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

// result returns the exit code and the last sentence.
func (s *soak) result() (code int, text string) {
	code, text = harness.ExitOK, "Nothing drifted, and no invariant was broken"
	list, broken := s.faults.all()
	if s.interrupted {
		code, text = harness.ExitFailed, text+", as far as this run came before it was interrupted"
	}
	if broken > 0 {
		code, text = harness.ExitBroken, fmt.Sprintf("%s\nBROKEN: %d complaints", strings.Join(list, "\n"), broken)
	}
	return code, text + fmt.Sprintf(" (seed %d).\n", s.seed)
}

// writeTable shows the numbers of each quantity at quiet points.
func (s *soak) writeTable(w io.Writer) {
	fmt.Fprintf(w, "%s\n%v, %d quiet points\n\n", s.title(), time.Since(s.progress.Began).Round(time.Second), len(s.judge.points))
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "QUANTITY\tBASELINE\tEARLY\tLATE\tWORST\tLAST\tALLOWED\tVERDICT")
	for q := range quantities {
		values := s.judge.of(q)
		if len(values) == 0 {
			break
		}
		quarter, worst, allowed, verdict := (len(values)+3)/4, slices.Max(values), "-", "-"
		if limit, judged := s.judge.limit(q); judged {
			allowed, verdict = facts[q].show(limit), "ok"
			if worst > limit {
				verdict = "DRIFT"
			}
		}
		fmt.Fprint(table, facts[q].name, "\t")
		for _, v := range []int64{values[0], harness.Quantile(values[:quarter], 0.5),
			harness.Quantile(values[len(values)-quarter:], 0.5), worst, values[len(values)-1]} {
			fmt.Fprint(table, facts[q].show(v), "\t")
		}
		fmt.Fprintf(table, "%s\t%s\n", allowed, verdict)
	}
	_ = table.Flush()
	counts := s.host.tally.all()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "%12d %s\n", counts[name], name)
	}
}
