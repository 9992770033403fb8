package harness

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// wardenName is the name that the kernel has for a warden.
const wardenName = "execbus-warden"

// Proc is one line of the kernel's list of processes.
type Proc struct {
	PID, PPID, Threads int
	Name               string
	State              byte
	Start              uint64 // in ticks since the boot
	Pages              int64  // resident, as the kernel counts quickly
}

// Dead reports whether the process is a zombie, or about to go.
func (p Proc) Dead() bool { return p.State == 'Z' || p.State == 'X' }

// IsWarden reports whether the process is a living warden of a host.
func (p Proc) IsWarden(host int) bool { return p.PPID == host && p.Name == wardenName && !p.Dead() }

// ReadProc reads /proc/PID/stat.
func ReadProc(pid int) (Proc, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Proc{}, err
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Proc{}, errors.New("unreadable /proc/PID/stat")
	}
	fields := strings.Fields(string(text[end+1:])) // the fields from the third one on, the state
	if len(fields) < 22 {
		return Proc{}, errors.New("/proc/PID/stat is too short")
	}
	p := Proc{PID: pid, Name: string(text[open+1 : end]), State: fields[0][0]}
	p.PPID, _ = strconv.Atoi(fields[1])
	p.Threads, _ = strconv.Atoi(fields[17])
	p.Start, _ = strconv.ParseUint(fields[19], 10, 64)
	p.Pages, _ = strconv.ParseInt(fields[21], 10, 64)
	return p, nil
}

// Procs lists all processes, without those that end meanwhile.
func Procs() []Proc {
	var all []Proc
	for _, name := range Entries("/proc") {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, err := ReadProc(pid); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// Warden finds the newest warden of a host. Its PID is 0 if there is none.
func Warden(all []Proc, host int) Proc {
	wardens := slices.DeleteFunc(slices.Clone(all), func(p Proc) bool { return !p.IsWarden(host) })
	if len(wardens) == 0 {
		return Proc{}
	}
	return slices.MaxFunc(wardens, func(a, b Proc) int { return cmp.Compare(a.Start, b.Start) })
}

// Entries lists the names in a directory.
func Entries(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

// Field returns the number behind a label in a file of /proc, or 0.
func Field(path, label string) int {
	text, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+label)
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), " kB"))
	return n
}

// ResidentKiB reads the kernel's exact count of a process's memory; the one in Proc comes from several counters.
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
