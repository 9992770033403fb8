package system

import (
	"context"
	"log/slog"
	goruntime "runtime"
	"testing"
	"time"
)

func TestGoroutinesAreUsedAgain(t *testing.T) {
	w := newWorkers()
	defer close(w.quit)
	ids := make(chan string, 2)
	name := task{work: func() { ids <- goroutineName() }}
	w.begin(name)
	w.next <- name // as begin does when somebody waits
	if first, second := <-ids, <-ids; first != second {
		t.Errorf("%q and then %q", first, second)
	}
}

func TestGoroutinesAreKeptUpToABound(t *testing.T) {
	w := newWorkers()
	release := make(chan struct{})
	for range 2 * maxKept {
		w.begin(task{work: func() { <-release }})
	}
	close(release)
	awaitKept(t, w, maxKept)
	before := goruntime.NumGoroutine()
	close(w.quit)
	for deadline := time.Now().Add(5 * time.Second); goruntime.NumGoroutine() > before-maxKept; goruntime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines of %d are left", goruntime.NumGoroutine(), before)
		}
	}
}

func TestAShutDownSystemKeepsNoGoroutines(t *testing.T) {
	before := goruntime.NumGoroutine()
	s := NewSystem(slog.New(slog.DiscardHandler), Options{})
	for range 10 {
		if _, err := s.Spawn("idle", func(*Context) {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); goruntime.NumGoroutine() > before; goruntime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, and %d before", goruntime.NumGoroutine(), before)
		}
	}
}

func awaitKept(t *testing.T, w workers, want int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); len(w.kept) < want; goruntime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines wait, not %d", len(w.kept), want)
		}
	}
}

// goroutineName is "goroutine 7".
func goroutineName() string {
	var room [64]byte
	text := room[:goruntime.Stack(room[:], false)]
	for i, b := range text {
		if b == '[' {
			return string(text[:i])
		}
	}
	return string(text)
}
