package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/execbus/execbus/tests/harness"
)

// unit says how a number is shown; empty means microseconds.
type unit string

const (
	milliseconds unit = "ms"
	megabytes    unit = "MB/s"
	cpuPerGiB    unit = "s/GiB"
	kibibytes    unit = "KiB"
	mebibytes    unit = "MiB"
	pieces       unit = " "
)

func (u unit) show(v float64) string {
	digits := 1
	switch u {
	case "":
		u = "µs"
	case pieces:
		digits = 0
	case cpuPerGiB:
		digits = 2
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", digits, v, u))
}

// machine describes where the bench runs.
func machine() string {
	return fmt.Sprintf("%d cores, kernel %s, %s %s/%s, load %s", runtime.GOMAXPROCS(0), firstLine("/proc/sys/kernel/osrelease"),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, firstLine("/proc/loadavg"))
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return first
}

// verdict is the judgement on one line.
type verdict string

const (
	kept       verdict = "ok"
	missed     verdict = "MISS"
	informed   verdict = "-"
	unmeasured verdict = "NOT MEASURED"
)

// line is one measured metric: medians over the samples, with the lowest and the highest ratio, or number if there is no ratio.
type line struct {
	Row     string  `json:"row"`
	Unit    unit    `json:"unit,omitempty"`
	Bare    float64 `json:"bare,omitempty"`
	Ours    float64 `json:"ours,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	Limit   string  `json:"limit,omitempty"`
	Verdict verdict `json:"verdict"`
	Low     float64 `json:"low,omitempty"`
	High    float64 `json:"high,omitempty"`
	Error   string  `json:"error,omitempty"`

	alone bool // there is no bare way
}

// result is everything that a run has measured.
type result struct {
	Machine string `json:"machine"` // at the beginning
	Load    string `json:"load"`    // at the end
	Lines   []line `json:"lines"`
}

func (r *result) add(name string, lines []line, err error) {
	if err != nil {
		lines = []line{{Row: name, Verdict: unmeasured, Error: strings.ReplaceAll(err.Error(), "\n", "; ")}}
	}
	r.Lines = append(r.Lines, lines...)
}

func (r *result) exitCode() int {
	has := func(v verdict) bool { return slices.ContainsFunc(r.Lines, func(l line) bool { return l.Verdict == v }) }
	switch {
	case has(missed):
		return harness.ExitBroken
	case has(unmeasured):
		return harness.ExitFailed
	default:
		return harness.ExitOK
	}
}

func (m metric) limitText() string {
	switch m.judge {
	case atMost:
		return fmt.Sprintf("≤ %.2f×", m.limit)
	case atLeast:
		return fmt.Sprintf("≥ %.2f×", m.limit)
	case moreMost:
		return "≤ " + m.unit.show(m.limit) + " more"
	case most:
		return "≤ " + m.unit.show(m.limit)
	default:
		return "-"
	}
}

func (r *result) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%s\nload at the end %s\n\n", r.Machine, r.Load)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "ROW\tBARE\tOURS\tRATIO\tLIMIT\tVERDICT\tSPREAD")
	for _, l := range r.Lines {
		show := l.Unit.show
		bare, ratio, spread := show(l.Bare), fmt.Sprintf("%.2f×", l.Ratio), fmt.Sprintf("%.2f – %.2f", l.Low, l.High)
		if l.alone {
			bare, ratio, spread = "-", "-", show(l.Low)+" – "+show(l.High)
		}
		if l.Error != "" {
			fmt.Fprintf(table, "%s\t\t\t\t\t%s\t%s\n", l.Row, l.Verdict, l.Error)
		} else {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Row, bare, show(l.Ours), ratio, l.Limit, l.Verdict, spread)
		}
	}
	return table.Flush()
}

// list shows the rows without measuring them.
func list(w io.Writer, chosen []row) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range chosen {
		var limits []string
		for _, m := range r.metrics {
			if m.judge != inform {
				limits = append(limits, strings.TrimSpace(m.name+" "+m.limitText()))
			}
		}
		about := r.about
		if r.layer {
			about = "(layer) " + about
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.name, strings.Join(limits, ", "), about)
	}
	return table.Flush()
}
