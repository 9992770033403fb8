package main

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

const (
	memoryFloods = 100
	// memoryEvery is how often the memory is looked at, and slowEvery how often the slow subscriber reads an event.
	memoryEvery = 100 * time.Millisecond
	slowEvery   = 10 * time.Millisecond
	// memoryKept is how much of so many floods the runtime keeps, in MiB: output that nobody has polled, and the log.
	memoryKept = memoryFloods * (ptyio.DefaultBufferSize + ptyio.LogHead + ptyio.LogTail) >> 20
)

func memoryCase() benchCase {
	return benchCase{name: "memory-floods", about: "100 floods of 20 s through the runtime (3 s with -quick)",
		metrics: []metric{
			{name: "rss grown, no subscriber", unit: mebibytes},
			{name: "rss grown, slow subscriber", unit: mebibytes},
			{name: "rss beyond twice what is kept", unit: mebibytes, judge: valueMost, limit: 64},
			{name: "live heap beyond what is kept", unit: mebibytes, judge: valueMost, limit: 8},
			{name: "live heap, slow subscriber", unit: mebibytes},
			{name: "floods", unit: megabytes},
		}, run: measureMemory}
}

// memoryAnswer is the helper's result: KiB of resident memory, before and at most, and of the heap that is in use at the
// end; and the bytes of all floods and of the slowest one.
type memoryAnswer struct {
	Before, Peak, Heap int
	Least              int64
	Bytes              int64
	Seconds            float64
}

func measureMemory(ctx context.Context, h *harness) ([]value, error) {
	if free := availableMiB(); free < 2048 {
		return nil, errors.New("less than 2 GiB of memory are available")
	}
	var grown, live [2][]float64
	var speeds []float64
	for round := range max(h.pairs/3, 1) {
		for i, subscriber := range []string{"no", "slow"} {
			a, err := askForMemory(ctx, h, subscriber)
			if err != nil {
				return nil, err
			}
			h.say("  run %d, %s subscriber: host %d → %d KiB, %d KiB of it live heap, %d MB in %.1f s, %.1f MB of the slowest",
				round+1, subscriber, a.Before, a.Peak, a.Heap, a.Bytes/1e6, a.Seconds, float64(a.Least)/1e6)
			grown[i] = append(grown[i], float64(a.Peak-a.Before)/1024)
			live[i] = append(live[i], float64(a.Heap)/1024)
			speeds = append(speeds, float64(a.Bytes)/1e6/a.Seconds)
		}
	}
	return []value{single(grown[0]), single(grown[1]), single(less(grown[0], 2*memoryKept)), single(less(live[0], memoryKept)),
		single(live[1]), single(speeds)}, nil
}

func less(values []float64, by float64) []float64 {
	var rest []float64
	for _, v := range values {
		rest = append(rest, v-by)
	}
	return rest
}

func askForMemory(ctx context.Context, h *harness, subscriber string) (a memoryAnswer, err error) {
	helper, err := startHelper(ctx, "memory", strconv.Itoa(memoryFloods), subscriber)
	if err != nil {
		return a, err
	}
	defer helper.close()
	return a, helper.ask(h.some(20, 3), &a)
}

// answerMemory is the helper: a host of so many floods.
func answerMemory(count int, slow bool, out io.Writer) error {
	return serve(out, func(ctx context.Context, seconds int) (any, error) {
		runtime, err := execbus.Start(execbus.Options{})
		if err != nil {
			return nil, err
		}
		answer, err := hostFloods(ctx, runtime, count, slow, time.Duration(seconds)*time.Second)
		if ended := shutDown(runtime); err == nil {
			err = ended
		}
		return answer, err
	})
}

func hostFloods(ctx context.Context, runtime *execbus.Runtime, count int, slow bool, lasts time.Duration) (a memoryAnswer, err error) {
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/", MaxProcesses: count + 1, WarnProcesses: count + 1})
	if err != nil {
		return a, err
	}
	if _, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{program}}); err != nil { // starts the warden
		return a, err
	}
	debug.FreeOSMemory()
	if a.Before, err = residentKiB("self"); err != nil {
		return a, err
	}
	if slow {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := readSlowly(ctx, session); err != nil {
			return a, err
		}
	}
	load := &sessionLoad{session: session}
	if err := load.start(ctx, count); err != nil {
		return a, err
	}
	defer load.end()
	if err := a.watch(ctx, load, lasts); err != nil {
		return a, err
	}
	if err := load.stop(ctx); err != nil { // what they write during a collection counts as live
		return a, err
	}
	debug.FreeOSMemory()
	a.Heap = heapKiB()
	return a, nil
}

// watch notes the highest use of memory.
func (a *memoryAnswer) watch(ctx context.Context, load *sessionLoad, lasts time.Duration) error {
	began := time.Now()
	for time.Since(began) < lasts {
		select {
		case <-time.After(memoryEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		rss, err := residentKiB("self")
		if err != nil {
			return err
		}
		a.Peak = max(a.Peak, rss)
	}
	a.Seconds = time.Since(began).Seconds()
	totals, err := load.totals(ctx)
	if err != nil {
		return err
	}
	a.Bytes, a.Least = sum(totals), slices.Min(totals)
	return nil
}

// readSlowly begins to read events, one at a time.
func readSlowly(ctx context.Context, session *execbus.Session) error {
	sub, err := session.Events(execbus.Watch{})
	if err != nil {
		return err
	}
	go func() {
		defer sub.Close()
		for {
			if _, err := sub.Next(ctx); err != nil {
				return
			}
			time.Sleep(slowEvery)
		}
	}()
	return nil
}
