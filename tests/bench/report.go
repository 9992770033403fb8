package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
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
	percent      unit = "%"
	times        unit = "×"
	pieces       unit = " "
)

func (u unit) show(v float64) string {
	digits := 1
	switch u {
	case "":
		u = "µs"
	case pieces:
		digits = 0
	case cpuPerGiB, times:
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

// line is one measured metric: medians over the samples, with the lowest and the highest ratio, or number if there is no ratio.
type line struct {
	Row     string
	Unit    unit
	Bare    float64
	Ours    float64
	Ratio   float64
	Limit   string
	Verdict string
	Low     float64
	High    float64
}

// The verdicts besides "-".
const (
	kept       = "ok"
	missed     = "MISS"
	unmeasured = "NOT MEASURED: "
)

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

func exitCode(lines []line) (code int) {
	for _, l := range lines {
		if l.Verdict == missed {
			return harness.ExitBroken
		} else if strings.HasPrefix(l.Verdict, unmeasured) {
			code = harness.ExitFailed
		}
	}
	return code
}

func writeTable(w io.Writer, lines []line) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "ROW\tBARE\tOURS\tRATIO\tSPREAD\tLIMIT\tVERDICT")
	for _, l := range lines {
		bare, ratio, spread := l.Unit.show(l.Bare), fmt.Sprintf("%.2f×", l.Ratio), fmt.Sprintf("%.2f – %.2f", l.Low, l.High)
		if l.Ratio == 0 {
			bare, ratio, spread = "-", "-", l.Unit.show(l.Low)+" – "+l.Unit.show(l.High)
		}
		if strings.HasPrefix(l.Verdict, unmeasured) {
			fmt.Fprintf(table, "%s\t\t\t\t\t\t%s\n", l.Row, l.Verdict)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Row, bare, l.Unit.show(l.Ours), ratio, spread, l.Limit, l.Verdict)
	}
	return table.Flush()
}

// list shows the rows without measuring them.
func list(w io.Writer, chosen []row) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range chosen {
		limits := ""
		for _, m := range r.metrics {
			if m.judge != inform {
				limits += strings.TrimSpace(m.name+" "+m.limitText()) + "  "
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.name, limits, r.demand, r.about)
	}
	return table.Flush()
}
