package harness

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/execbus/execbus/tests/proc"
)

// wardenName is the name that the kernel has for a warden.
const wardenName = "execbus-warden"

// Warden finds the living warden of a host. It is 0 if there is none.
func Warden(host int) (pid int) {
	for pid, p := range proc.All() {
		if p.Parent == host && p.Name == wardenName && p.Alive() {
			return pid
		}
	}
	return 0
}

// Field returns the number behind a label in a file of /proc, or 0.
func Field(path, label string) int {
	text, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+label)
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), " kB"))
	return n
}

// Threads returns the number of threads of a process.
func Threads(pid int) int { return Field(fmt.Sprintf("/proc/%d/status", pid), "Threads:") }

// ResidentKiB reads the kernel's exact count of a process's memory; the one in the status comes from several counters.
func ResidentKiB(pid int) (int, error) {
	kib := Field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Rss:")
	if kib == 0 {
		return 0, fmt.Errorf("the kernel does not say how much memory process %d has", pid)
	}
	return kib, nil
}

// Quantile is the nearest-rank quantile; the median of an even number is the mean of the middle two.
func Quantile[T int64 | float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); q == 0.5 && n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
