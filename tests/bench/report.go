package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
)

// unit says how a number is shown.
type unit string

const (
	nanoseconds  unit = "ns"
	microseconds unit = "µs"
	milliseconds unit = "ms"
	megabytes    unit = "MB/s"
	cpuPerGiB    unit = "s/GiB"
	kibibytes    unit = "KiB"
	mebibytes    unit = "MiB"
	pieces       unit = ""
)

func (u unit) show(v float64) string {
	digits := 1
	switch {
	case u == pieces:
		digits = 0
	case u == cpuPerGiB:
		digits = 2
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", digits, v, u))
}

// facts describe the machine.
type facts struct {
	Cores      int    `json:"cores"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	LoadBefore string `json:"loadBefore"`
	LoadAfter  string `json:"loadAfter"`
}

func machine() facts {
	return facts{Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH, LoadBefore: loadAverage()}
}

func loadAverage() string { return firstLine("/proc/loadavg") }

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func (f facts) print(w io.Writer) {
	fmt.Fprintf(w, "%d cores (GOMAXPROCS %d), kernel %s, %s, load %s\n", f.Cores, f.GOMAXPROCS, f.Kernel, f.Go, f.LoadBefore)
}

// verdict is the judgement on one metric.
type verdict string

const (
	kept       verdict = "ok"
	missed     verdict = "MISS"
	informed   verdict = "-"
	unmeasured verdict = "NOT MEASURED"
)

// row is one line of the table.
type row struct {
	Case    string  `json:"case"`
	Unit    unit    `json:"unit,omitempty"`
	Bare    float64 `json:"bare,omitempty"`
	Ours    float64 `json:"ours,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	Limit   string  `json:"limit,omitempty"`
	Verdict verdict `json:"verdict"`
	Low     float64 `json:"low,omitempty"`
	High    float64 `json:"high,omitempty"`
	Error   string  `json:"error,omitempty"`

	alone bool
}

// result is everything that a run has measured.
type result struct {
	Machine facts `json:"machine"`
	Rows    []row `json:"rows"`
}

func (r *result) add(c benchCase, values []value, err error) {
	if err != nil {
		r.Rows = append(r.Rows, row{Case: c.name, Verdict: unmeasured, Error: err.Error()})
		return
	}
	for i, m := range c.metrics {
		v := values[i]
		line := row{Case: strings.TrimSpace(c.name + " " + m.name), Unit: m.unit, Bare: v.bare, Ours: v.ours, Ratio: v.ratio,
			Limit: m.limitText(), Verdict: kept, Low: v.low, High: v.high, alone: v.alone}
		switch {
		case m.judge == inform:
			line.Verdict = informed
		case !m.kept(v):
			line.Verdict = missed
		}
		r.Rows = append(r.Rows, line)
	}
}

func (m metric) limitText() string {
	switch m.judge {
	case atMost:
		return fmt.Sprintf("≤ %.2f×", m.limit)
	case atLeast:
		return fmt.Sprintf("≥ %.2f×", m.limit)
	case valueMost:
		return strings.TrimSpace("≤ " + m.unit.show(m.limit) + " " + m.when)
	default:
		return "-"
	}
}

func (r *result) exitCode() int {
	code := exitKept
	for _, line := range r.Rows {
		switch line.Verdict {
		case missed:
			return exitMissed
		case unmeasured:
			code = exitUnmeasured
		}
	}
	return code
}

func (r *result) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r *result) writeTable(w io.Writer) error {
	r.Machine.print(w)
	fmt.Fprintf(w, "load at the end %s\n\n", r.Machine.LoadAfter)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "CASE\tBARE\tOURS\tRATIO\tLIMIT\tVERDICT\tSPREAD")
	for _, line := range r.Rows {
		switch {
		case line.Error != "":
			fmt.Fprintf(table, "%s\t\t\t\t\t%s\t%s\n", line.Case, line.Verdict, strings.ReplaceAll(line.Error, "\n", "; "))
		case line.alone:
			fmt.Fprintf(table, "%s\t-\t%s\t-\t%s\t%s\t%s – %s\n", line.Case, line.Unit.show(line.Ours), line.Limit, line.Verdict,
				line.Unit.show(line.Low), line.Unit.show(line.High))
		default:
			fmt.Fprintf(table, "%s\t%s\t%s\t%.2f×\t%s\t%s\t%.2f – %.2f\n", line.Case, line.Unit.show(line.Bare),
				line.Unit.show(line.Ours), line.Ratio, line.Limit, line.Verdict, line.Low, line.High)
		}
	}
	return table.Flush()
}

// list shows the cases without running them.
func list(w io.Writer, cases []benchCase) {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, c := range cases {
		var limits []string
		for _, m := range c.metrics {
			if m.judge != inform {
				limits = append(limits, strings.TrimSpace(m.name+" "+m.limitText()))
			}
		}
		if limits == nil {
			limits = []string{"-"}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.name, strings.Join(limits, ", "), c.about)
	}
	_ = table.Flush()
}
