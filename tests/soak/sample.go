package main

import (
	"os"
	"runtime"
	"slices"
	"time"
)

// rule says how a quantity is judged at quiet points.
type rule int

const (
	shown  rule = iota // not judged
	exact              // not above the baseline
	none               // zero
	within             // at most slack above the baseline
)

// quantity is something that is counted.
type quantity int

const (
	descriptors quantity = iota
	wardenDescriptors
	goroutines
	zombies
	descendants
	ptys
	heap
	threads
	wardenThreads
	rss
	wardenRSS
	systemPTYs
	settling
	quantities // the number of quantities
)

// heapSlack is how much the heap may grow, in bytes.
const heapSlack = 5 << 20

// facts about the quantities.
var facts = [quantities]struct {
	name  string
	rule  rule
	slack int64
	unit  unit
}{
	descriptors:       {name: "descriptors", rule: exact},
	wardenDescriptors: {name: "warden descriptors", rule: exact},
	goroutines:        {name: "goroutines", rule: exact},
	zombies:           {name: "zombies", rule: none},
	descendants:       {name: "descendants", rule: none},
	ptys:              {name: "ptys", rule: exact},
	heap:              {name: "heap", rule: within, slack: heapSlack, unit: mebibytes},
	threads:           {name: "threads"},
	wardenThreads:     {name: "warden threads"},
	rss:               {name: "rss", unit: mebibytes},
	wardenRSS:         {name: "warden rss", unit: mebibytes},
	systemPTYs:        {name: "ptys of the system"},
	settling:          {name: "settling", unit: milliseconds},
}

// sample has the counts of one moment.
type sample struct {
	at     time.Duration // since the start
	values [quantities]int64
}

// measure takes a sample. The heap is collected twice: the first time only empties the pools.
func (w *watcher) measure(at time.Duration) (sample, census) {
	var memory runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&memory)
	c := w.take()
	s := sample{at: at}
	page := int64(os.Getpagesize())
	s.values = [quantities]int64{
		descriptors: c.descriptors, wardenDescriptors: c.wardenFDs, goroutines: int64(runtime.NumGoroutine()),
		zombies: int64(len(c.zombies)), descendants: int64(len(c.descendants)), ptys: c.ptys,
		heap: int64(memory.HeapAlloc), threads: int64(c.host.threads), wardenThreads: int64(c.warden.threads),
		rss: c.host.pages * page, wardenRSS: c.warden.pages * page, systemPTYs: c.systemPTYs,
	}
	return s, c
}

// maxSamples bounds a series, so that watching itself does not make a long run grow.
const maxSamples = 4096

// series has samples at equal intervals. When it is full, every second one is dropped and the interval doubles.
type series struct {
	samples []sample
	stride  int // every stride-th sample is kept
	seen    int
}

func (s *series) add(one sample) {
	s.stride = max(s.stride, 1)
	s.seen++
	if (s.seen-1)%s.stride != 0 {
		return
	}
	if len(s.samples) == 0 {
		s.samples = make([]sample, 0, maxSamples)
	}
	if len(s.samples) == maxSamples {
		for i := range maxSamples / 2 {
			s.samples[i] = s.samples[2*i]
		}
		s.samples = s.samples[:maxSamples/2]
		s.stride *= 2
		if (s.seen-1)%s.stride != 0 {
			return
		}
	}
	s.samples = append(s.samples, one)
}

// of returns the values of one quantity.
func (s *series) of(q quantity) []int64 {
	values := make([]int64, len(s.samples))
	for i, one := range s.samples {
		values[i] = one.values[q]
	}
	return values
}

func median(values []int64) int64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// quarters returns the medians of the first and the last quarter.
func quarters(values []int64) (early, late int64) {
	n := (len(values) + 3) / 4
	return median(values[:n]), median(values[len(values)-n:])
}
