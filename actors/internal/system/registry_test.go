package system

import (
	"context"
	"log/slog"
	goruntime "runtime"
	"runtime/metrics"
	"testing"
)

func TestAsksLeaveNothingInTheRegistry(t *testing.T) {
	s := newTestSystem(t)
	pid := mustSpawn(t, s, func(ctx *Context) {
		if ctx.Message() != "ignore" {
			ctx.Respond(ctx.Message())
		}
	})
	before := registered(s)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		if _, err := Ask[int](t.Context(), s, pid, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := Ask[string](ended, s, pid, "answered late"); err != nil && err != context.Canceled {
			t.Fatal(err)
		}
		for range 98 {
			s.Call(pid, "ignore").Close()
		}
	}
	if after := registered(s); after != before {
		t.Errorf("%d processes registered before 100,000 asks, %d after", before, after)
	}
}

func TestASystemStartsFewGoroutines(t *testing.T) {
	created := func() uint64 {
		sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := created()
	newTestSystem(t)
	if n := created() - before; n > 1000 { // others' tests may run beside; the library's registry alone would take 32,768
		t.Errorf("%d goroutines", n)
	}
}

func registered(s *System) (n int) {
	for _, bucket := range s.lib.ProcessRegistry.LocalPIDs.LocalPIDs {
		n += bucket.Count()
	}
	return n
}

func BenchmarkIdleActor(b *testing.B) {
	s := NewSystem(slog.New(slog.DiscardHandler), Options{})
	pids := make([]*PID, b.N)
	before := heap()
	for i := range pids {
		pids[i] = mustSpawn(b, s, echo)
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "heap-B/actor")
	goruntime.KeepAlive(s)
	goruntime.KeepAlive(pids)
}

func BenchmarkSystem(b *testing.B) {
	systems := make([]*System, b.N)
	before := heap()
	for i := range systems {
		systems[i] = NewSystem(slog.New(slog.DiscardHandler), Options{})
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "heap-B/system")
	goruntime.KeepAlive(systems)
}

func heap() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}
