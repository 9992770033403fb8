package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/execbus/execbus/tests/harness"
	"github.com/execbus/execbus/tests/proc"
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
	quantities quantity = 10
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
	{"warden threads", shown, ""}}

func (f fact) show(v int64) string {
	if f.unit == "MiB" {
		return fmt.Sprintf("%.1f MiB", float64(v)/(1<<20))
	}
	return fmt.Sprint(v)
}

// sample has the counts of one moment, in the order of the table.
type sample [quantities]int64

// markVariable is in the environment of every command, with this run's mark.
const markVariable = "EXECBUS_SOAK"

// watcher counts the processes and descriptors of this run.
type watcher struct{ mark []byte }

func newWatcher(mark string) (*watcher, error) {
	if !proc.Look(os.Getpid()).Alive() {
		return nil, errors.New("there is no /proc, which only Linux has")
	}
	return &watcher{mark: []byte(markVariable + "=" + mark)}, nil
}

// census is what the kernel knows about the processes of this run at one moment.
type census struct {
	warden               int // its PID, or 0 if there is none
	descendants, zombies []string
}

// take counts. The heap is collected twice: the first time only empties the pools.
func (w *watcher) take() (sample, census) {
	var memory runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&memory)
	c := w.census(os.Getpid())
	// Without the lists of children: each of the warden's threads that starts commands keeps its own open.
	kept := slices.DeleteFunc(proc.Descriptors(c.warden), func(one string) bool { return strings.HasSuffix(one, "/children") })
	rss := func(pid int) int64 { return int64(harness.Field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")) << 10 }
	return sample{int64(len(proc.Descriptors(os.Getpid()))), int64(len(kept)), int64(runtime.NumGoroutine()), int64(len(c.zombies)),
		int64(len(c.descendants)), int64(memory.HeapAlloc), rss(os.Getpid()), rss(c.warden), int64(harness.Threads(os.Getpid())), int64(harness.Threads(c.warden))}, c
}

func (w *watcher) census(host int) census {
	all, c := proc.All(), census{warden: harness.Warden(host)}
	children, ours := map[int][]int{}, map[int]bool{host: true}
	for pid, p := range all {
		children[p.Parent] = append(children[p.Parent], pid)
	}
	meet := func(pid int) {
		p := all[pid]
		ours[pid] = true
		switch text := fmt.Sprintf("%d %+v", pid, p); {
		case !p.Alive() && (p.Parent == host || p.Parent == c.warden):
			c.zombies = append(c.zombies, text)
		case pid != c.warden && p.Alive():
			c.descendants = append(c.descendants, text)
		}
	}
	for parents := []int{host}; len(parents) > 0; parents = parents[1:] {
		for _, pid := range children[parents[0]] {
			meet(pid)
			parents = append(parents, pid)
		}
	}
	for pid := range all { // those that have lost their parents
		if !ours[pid] && w.marked(pid) {
			meet(pid)
		}
	}
	return c
}

func (w *watcher) marked(pid int) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(v []byte) bool { return bytes.Equal(v, w.mark) })
}

// judge compares quiet points with the first of them.
type judge struct {
	name   string
	faults *faults
	except []quantity // are not judged
	points []sample   // the first one is the baseline
	calm   int        // equal looks in a row, before there is a baseline
	last   sample
}

// calmWanted is how many looks in a row must be equal to become the baseline, so that it has nothing that is about to go away.
const calmWanted = 6

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
