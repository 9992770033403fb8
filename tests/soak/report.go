package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// unit says how a number is shown.
type unit string

const (
	pieces       unit = ""
	mebibytes    unit = "MiB"
	milliseconds unit = "ms"
)

func (u unit) show(v int64) string {
	switch u {
	case mebibytes:
		return fmt.Sprintf("%.1f MiB", float64(v)/(1<<20))
	case pieces:
		return fmt.Sprint(v)
	default:
		return fmt.Sprintf("%d %s", v, u)
	}
}

// row is one quantity.
type row struct {
	Quantity string `json:"quantity"`
	// Under load.
	Min    int64 `json:"min"`
	Median int64 `json:"median"`
	Max    int64 `json:"max"`
	Early  int64 `json:"early"`
	Late   int64 `json:"late"`
	// At quiet points.
	Baseline int64  `json:"baseline"`
	Worst    int64  `json:"worst"`
	Last     int64  `json:"last"`
	Allowed  *int64 `json:"allowed,omitempty"`
	Verdict  string `json:"verdict"`

	unit unit
}

// report is the result of a run.
type report struct {
	Title       string           `json:"title"`
	Seed        uint64           `json:"seed"`
	Elapsed     float64          `json:"elapsedSeconds"`
	Samples     int              `json:"samples"`
	QuietPoints int              `json:"quietPoints"`
	Rows        []row            `json:"rows"`
	Broken      int              `json:"broken"`
	Faults      []fault          `json:"faults,omitempty"`
	Interrupted bool             `json:"interrupted,omitempty"`
	Counts      map[string]int64 `json:"counts"`
}

func (s *soak) report() *report {
	r := &report{Title: s.title(), Seed: s.seed, Elapsed: time.Since(s.out.began).Seconds(), Samples: len(s.sampler.series.samples),
		QuietPoints: len(s.judge.points), Interrupted: s.interrupted, Counts: s.host.tally.all()}
	r.Faults, r.Broken = s.faults.all()
	for q := range quantities {
		r.Rows = append(r.Rows, s.row(q))
	}
	return r
}

func (s *soak) row(q quantity) row {
	line := row{Quantity: facts[q].name, Verdict: "-", unit: facts[q].unit}
	if values := s.sampler.series.of(q); len(values) > 0 {
		line.Min, line.Median, line.Max = slices.Min(values), median(values), slices.Max(values)
		line.Early, line.Late = quarters(values)
	}
	values := s.judge.of(q)
	if len(values) == 0 {
		return line
	}
	line.Baseline, line.Worst, line.Last = values[0], slices.Max(values), values[len(values)-1]
	if limit, judged := s.judge.limit(q); judged {
		line.Allowed, line.Verdict = &limit, "ok"
		if line.Worst > limit {
			line.Verdict = "DRIFT"
		}
	}
	return line
}

func (r *report) exitCode() int {
	switch {
	case r.Broken > 0:
		return exitBroken
	case r.Interrupted:
		return exitFailed
	default:
		return exitOK
	}
}

func (r *report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r *report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%.0f s, %d samples under load, %d quiet points\n\n", r.Title, r.Elapsed, r.Samples, r.QuietPoints)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\tUNDER LOAD\t\t\t\t\tQUIET\t\t\t\t\nQUANTITY\tMIN\tMEDIAN\tMAX\tEARLY\tLATE\tBASELINE\tWORST\tLAST\tALLOWED\tVERDICT")
	for _, line := range r.Rows {
		show := line.unit.show
		allowed := "-"
		if line.Allowed != nil {
			allowed = show(*line.Allowed)
		}
		cells := []string{line.Quantity, show(line.Min), show(line.Median), show(line.Max), show(line.Early), show(line.Late),
			show(line.Baseline), show(line.Worst), show(line.Last), allowed, line.Verdict}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, name := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(w, "%12d %s\n", r.Counts[name], name)
	}
	fmt.Fprintln(w)
	for _, f := range r.Faults {
		fmt.Fprintf(w, "BROKEN after %s: %s: %s\n", f.At, f.Where, f.What)
	}
	_, err := fmt.Fprintln(w, r.sentence())
	return err
}

// sentence returns the result in one line.
func (r *report) sentence() string {
	text := "Nothing drifted, and no invariant was broken"
	if r.Broken > 0 {
		text = fmt.Sprintf("BROKEN: %d complaints", r.Broken)
	}
	if r.Interrupted {
		text += ", as far as this run came before it was interrupted"
	}
	return text + fmt.Sprintf(" (seed %d).", r.Seed)
}
