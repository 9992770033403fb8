package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/execbus/execbus/tests/harness"
)

// quantity is something that is counted.
type quantity int

// The quantities that the code names; the others are only in the table.
const (
	descriptors quantity = iota
	wardenDescriptors
	goroutines
	zombies
	descendants
	heap
	rss
	settling   quantity = 11
	quantities quantity = 12
)

// rule says how a quantity is judged at quiet points.
type rule int

const (
	shown  rule = iota // not judged
	exact              // not above the baseline
	none               // zero
	within             // at most heapSlack above the baseline
)

// heapSlack is how much the heap may grow, in bytes.
const heapSlack = 5 << 20

// fact is what is known about a quantity.
type fact struct {
	name string
	rule rule
	unit string
}

var facts = [quantities]fact{{"descriptors", exact, ""}, {"warden descriptors", exact, ""}, {"goroutines", exact, ""}, {"zombies", none, ""},
	{"descendants", none, ""}, {"heap", within, "MiB"}, {"rss", shown, "MiB"}, {"warden rss", shown, "MiB"}, {"threads", shown, ""},
	{"warden threads", shown, ""}, {"ptys of the system", shown, ""}, {"settling", shown, "ms"}}

func (f fact) show(v int64) string {
	if f.unit == "MiB" {
		return fmt.Sprintf("%.1f MiB", float64(v)/(1<<20))
	}
	return strings.TrimSpace(fmt.Sprint(v, " ", f.unit))
}

// sample has the counts of one moment, in the order of the table.
type sample [quantities]int64

// markVariable is in the environment of every command, with this run's mark.
const markVariable = "EXECBUS_SOAK"

// watcher counts the processes and descriptors of this run.
type watcher struct {
	self harness.Proc
	mark []byte
	mu   sync.Mutex // one look at a time, because a look needs descriptors, too
}

func newWatcher(mark string) (*watcher, error) {
	self, err := harness.ReadProc(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("read /proc, which only Linux has: %w", err)
	}
	return &watcher{self: self, mark: []byte(markVariable + "=" + mark)}, nil
}

// census is what the kernel knows about the processes of this run at one moment.
type census struct {
	warden               harness.Proc // its PID is 0 if there is none
	descendants, zombies []harness.Proc
}

// take counts. The heap is collected twice: the first time only empties the pools.
func (w *watcher) take() (sample, census) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var memory runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&memory)
	all := harness.Procs()
	c := w.census(all)
	self, _ := harness.ReadProc(w.self.PID)
	page := int64(os.Getpagesize())
	// The first count is without the descriptor of the listing, the second without the lists of children: each of the warden's
	// threads that starts commands keeps its own open.
	kept := slices.DeleteFunc(targets(c.warden.PID), func(target string) bool { return strings.HasSuffix(target, "/children") })
	return sample{int64(len(harness.Entries("/proc/self/fd"))) - 1, int64(len(kept)), int64(runtime.NumGoroutine()), int64(len(c.zombies)),
		int64(len(c.descendants)), int64(memory.HeapAlloc), self.Pages * page, c.warden.Pages * page, int64(self.Threads),
		int64(c.warden.Threads), int64(harness.Field("/proc/sys/kernel/pty/nr", "")), 0}, c
}

func (w *watcher) census(all []harness.Proc) census {
	c := census{warden: harness.Warden(all, w.self.PID)}
	children, ours := map[int][]harness.Proc{}, map[int]bool{w.self.PID: true}
	for _, p := range all {
		children[p.PPID] = append(children[p.PPID], p)
	}
	meet := func(p harness.Proc) {
		ours[p.PID] = true
		switch {
		case p.Dead() && (p.PPID == w.self.PID || p.PPID == c.warden.PID):
			c.zombies = append(c.zombies, p)
		case p.PID != c.warden.PID && !p.Dead():
			c.descendants = append(c.descendants, p)
		}
	}
	for parents := []int{w.self.PID}; len(parents) > 0; parents = parents[1:] {
		for _, p := range children[parents[0]] {
			meet(p)
			parents = append(parents, p.PID)
		}
	}
	for _, p := range all { // those that have lost their parents
		if !ours[p.PID] && p.Start >= w.self.Start && w.marked(p.PID) {
			meet(p)
		}
	}
	return c
}

func (w *watcher) marked(pid int) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(v []byte) bool { return bytes.Equal(v, w.mark) })
}

// targets lists what the descriptors of a process refer to.
func targets(pid int) []string {
	var all []string
	for _, fd := range harness.Entries(fmt.Sprintf("/proc/%d/fd", pid)) {
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd)); err == nil {
			all = append(all, target)
		}
	}
	slices.Sort(all)
	return all
}

// judge compares quiet points with the first of them.
type judge struct {
	name   string
	faults *faults
	except []quantity // are not judged
	points []sample   // the first one is the baseline
	calm   int        // equal looks in a row, before there is a baseline
	last   sample

	mu    sync.Mutex
	peaks sample // under load
}

// calmWanted is how many looks in a row must be equal to become the baseline, so that it has nothing that is about to go away.
const calmWanted = 6

func (j *judge) peak(one sample) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for q := range j.peaks {
		j.peaks[q] = max(j.peaks[q], one[q])
	}
}

// limit returns the most that a quantity may be, and whether it is judged.
func (j *judge) limit(q quantity) (most int64, judged bool) {
	switch {
	case slices.Contains(j.except, q):
		return 0, false
	case facts[q].rule == none:
		return 0, true
	case facts[q].rule == shown || len(j.points) == 0:
		return 0, false
	case facts[q].rule == within:
		return j.points[0][q] + heapSlack, true
	default:
		return j.points[0][q], true
	}
}

// settled reports whether a look can stand for the quiet point: nothing is too high.
func (j *judge) settled(one sample) bool {
	same := true
	for q := range quantities {
		same = same && (facts[q].rule != exact || one[q] == j.last[q])
	}
	j.last = one
	if j.calm++; !same {
		j.calm = 0
	}
	return len(j.above(one)) == 0 && (len(j.points) > 0 || j.calm >= calmWanted)
}

// above returns the quantities that are too high.
func (j *judge) above(one sample) (high []quantity) {
	for q := range quantities {
		if limit, judged := j.limit(q); judged && one[q] > limit {
			high = append(high, q)
		}
	}
	return high
}

// of returns the values of one quantity at all quiet points.
func (j *judge) of(q quantity) []int64 {
	values := make([]int64, len(j.points))
	for i, p := range j.points {
		values[i] = p[q]
	}
	return values
}

// add ends a quiet point. It returns the quantities that have drifted further than at any point before.
func (j *judge) add(one sample) (worse []quantity) {
	for _, q := range j.above(one) {
		if one[q] > slices.Max(append(j.of(q), 0)) {
			limit, _ := j.limit(q)
			j.faults.add(fmt.Sprintf("%s %d", j.name, len(j.points)), "drift: %s %s, at most %s allowed", facts[q].name,
				facts[q].show(one[q]), facts[q].show(limit))
			worse = append(worse, q)
		}
	}
	j.points = append(j.points, one)
	return worse
}
