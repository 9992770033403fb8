package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// The heaps that are compared, in MiB.
const (
	smallHeap = 50
	largeHeap = 2048
)

func heapCases() []benchCase {
	heap := func(spawner string, m metric) benchCase {
		return benchCase{name: "heap-" + spawner, about: "spawn-pty, " + spawner + ", by hosts of 50 MiB (bare) and of 2 GiB (ours)",
			metrics: []metric{m},
			run:     func(ctx context.Context, h *harness) ([]value, error) { return compareHeaps(ctx, h, spawner) }}
	}
	return []benchCase{
		heap("direct", metric{unit: microseconds}),
		heap("warden", metric{unit: microseconds, judge: atMost, limit: 1.15}),
		heap("isolated", metric{unit: microseconds, judge: atMost, limit: 1.15}),
	}
}

// compareHeaps alternates short turns of two helper processes.
func compareHeaps(ctx context.Context, h *harness, spawner string) ([]value, error) {
	if free := availableMiB(); free < largeHeap+512 {
		return nil, fmt.Errorf("only %d MiB of memory are available", free)
	}
	var hosts [2]*helper
	for i, size := range []int{smallHeap, largeHeap} {
		host, err := startHelper(ctx, "heap", strconv.Itoa(size), spawner)
		if err != nil {
			return nil, err
		}
		defer host.close()
		hosts[i] = host
	}
	turns := h.some(20, 4)
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		var took [2][]float64
		for range turns {
			for i, host := range hosts {
				var answer []float64
				if err := host.ask(10, &answer); err != nil {
					return nil, nil, err
				}
				took[i] = append(took[i], answer...)
			}
		}
		return []float64{median(took[0])}, []float64{median(took[1])}, nil
	})
}

// holdHeap is the helper: a host with a heap of that size.
func holdHeap(mebibytes int, way string, out io.Writer) error {
	ballast := make([]byte, mebibytes<<20)
	for i := 0; i < len(ballast); i += os.Getpagesize() {
		ballast[i] = 1
	}
	debug.SetGCPercent(-1)
	s, err := newSpawns(sandbox.Options{Direct: way == "direct"}, true)
	if err != nil {
		return err
	}
	defer s.close()
	if way == "isolated" {
		dir, err := os.MkdirTemp("", "bench-heap-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if s, err = s.inside(context.Background(), dir, messages.AssuranceIsolated, messages.SandboxPolicy{}); err != nil {
			return err
		}
		defer s.sandbox.Release()
	}
	err = serve(out, func(ctx context.Context, n int) (any, error) {
		var took []float64
		for range n {
			t, _, err := s.once(ctx)
			if err != nil {
				return nil, err
			}
			took = append(took, micros(t))
		}
		return took, nil
	})
	runtime.KeepAlive(ballast)
	return err
}

// heapKiB returns the size of the objects on this process's heap. It includes dead objects that the collector has not found
// yet.
func heapKiB() int {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc >> 10)
}

// availableMiB returns the kernel's estimate of the memory available without swapping, or a large number if there is no
// estimate.
func availableMiB() int {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 1 << 30
	}
	return procField(string(text), "MemAvailable:") >> 10
}

// procField returns the number behind a label in a proc file, or 0.
func procField(text, label string) int {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, label); found {
			fields := strings.Fields(rest)
			if len(fields) > 0 {
				n, _ := strconv.Atoi(fields[0])
				return n
			}
		}
	}
	return 0
}
