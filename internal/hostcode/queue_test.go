package hostcode

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// much is far more than what a queue does takes here.
const much = 30 * time.Second

// blocked is a queue whose goroutine waits until release is called.
func blocked(t *testing.T) (q *Queue, release func()) {
	t.Helper()
	q = NewQueue()
	entered, gate := make(chan struct{}), make(chan struct{})
	q.Submit(func() {
		close(entered)
		<-gate
	})
	<-entered
	return q, sync.OnceFunc(func() { close(gate) })
}

func TestAQueueKeepsTheOrderAndDoesEverythingBeforeItEnds(t *testing.T) {
	t.Parallel()
	q, release := blocked(t)
	var done []int
	for i := range 100 {
		q.Submit(func() { done = append(done, i) })
	}
	time.AfterFunc(time.Millisecond, release)
	CloseAll(much, q)
	if !slices.IsSorted(done) || len(done) != 100 {
		t.Errorf("it did %v", done)
	}
	q.Submit(func() { t.Error("something was done after the end") })
	if n := q.Dropped(); n != 1 {
		t.Errorf("%d were dropped, want what came after the end", n)
	}
}

func TestAFullQueueDropsAndCounts(t *testing.T) {
	t.Parallel()
	q, release := blocked(t)
	done := 0
	for range queued + 7 {
		q.Submit(func() { done++ })
	}
	if n := q.Dropped(); n != 7 {
		t.Errorf("%d were dropped, want 7", n)
	}
	release()
	CloseAll(much, q)
	if done != queued {
		t.Errorf("%d were done, want %d", done, queued)
	}
}

func TestAQueueIsBrokenByAPanicOrTheEndOfItsGoroutine(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(){"panic": func() { panic("broken") }, "end": runtime.Goexit} {
		q, release := blocked(t)
		q.Submit(act)
		for range 9 {
			q.Submit(func() { t.Errorf("%s: something was done behind it", name) })
		}
		release()
		CloseAll(much, q)
		q.Submit(func() { t.Errorf("%s: something was done later", name) })
		if n := q.Dropped(); n != 11 {
			t.Errorf("%s: %d were dropped, want all 11", name, n)
		}
	}
}

func TestAQueueThatIsBlockedEndsWithoutWaiting(t *testing.T) {
	t.Parallel()
	q, release := blocked(t)
	q.Submit(func() { t.Error("it was done after it was given up") })
	CloseAll(time.Millisecond, q)
	release()
	<-q.ended
	if n := q.Dropped(); n != 1 {
		t.Errorf("%d were dropped, want the one that waited", n)
	}
}
