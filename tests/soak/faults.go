package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// maxFaults bounds the complaints that are kept. All are counted, but a run with so many ends early.
const maxFaults = 100

// fault is a broken invariant.
type fault struct {
	At    string `json:"at"`
	Where string `json:"where"`
	What  string `json:"what"`
}

// faults collects complaints. It is safe for concurrent use.
type faults struct {
	began time.Time
	say   io.Writer // gets a line for each complaint

	mu    sync.Mutex
	list  []fault
	total int
}

func (f *faults) add(where, format string, args ...any) {
	one := fault{At: time.Since(f.began).Round(time.Millisecond).String(), Where: where, What: fmt.Sprintf(format, args...)}
	f.mu.Lock()
	f.total++
	keep := len(f.list) < maxFaults
	if keep {
		f.list = append(f.list, one)
	}
	f.mu.Unlock()
	if keep {
		fmt.Fprintf(f.say, "BROKEN after %s: %s: %s\n", one.At, one.Where, one.What)
	}
}

// tooMany reports whether the run should end because of its faults.
func (f *faults) tooMany() bool {
	_, total := f.all()
	return total >= maxFaults
}

// all returns the complaints that were kept, and the number of all complaints.
func (f *faults) all() ([]fault, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]fault(nil), f.list...), f.total
}
