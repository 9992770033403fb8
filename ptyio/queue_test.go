//go:build linux

package ptyio

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// pipeInput makes the input of a child. The test does the child's reading.
func pipeInput(t *testing.T) (in *input, theirs *os.File) {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return &input{file: ours}, theirs
}

func TestAnInputThatIsClosedWhileAWriteIsUnderWayAnswersItOnce(t *testing.T) {
	for range 200 {
		in, _ := pipeInput(t)
		answers := make(chan error, 8)
		done := func(_ Taken, err error) { answers <- err }
		in.write(make([]byte, 256<<10), time.Time{}, done) // a pipe holds 64 KiB
		in.write([]byte("x"), time.Now().Add(time.Millisecond), done)
		in.finish(func(err error) { done(Taken{}, err) })
		in.write([]byte("x"), time.Time{}, done)
		go in.close()
		for range 4 {
			if err := <-answers; err == nil {
				t.Error("a write to a pipe that nobody reads succeeded")
			}
		}
		in.mu.Lock()
		if in.pending != 0 || in.current != nil || len(in.queue) != 0 {
			t.Errorf("left: %d bytes, %d items, busy %v", in.pending, len(in.queue), in.current != nil)
		}
		in.mu.Unlock()
		if len(answers) > 0 {
			t.Error("a write was answered twice")
		}
	}
}

func TestAWriteWithoutAQueueIsAnsweredBeforeItReturns(t *testing.T) {
	in, _ := pipeInput(t)
	defer in.close()
	answered := false
	in.write([]byte("key"), time.Time{}, func(taken Taken, err error) { answered = taken.Bytes == 3 && err == nil })
	if !answered {
		t.Error("a key had to wait for a goroutine")
	}
}

// fakeStarter starts nothing.
type fakeStarter func(context.Context, Start) (Leader, error)

func (f fakeStarter) Start(ctx context.Context, start Start) (Leader, error) { return f(ctx, start) }

// countDescriptors counts those of this process, with the two that Go's poller opens for its first file, which stay.
func countDescriptors(t *testing.T) int {
	t.Helper()
	first, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = first.Close(), other.Close()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestALeaderThatCameToLifeTooLateReportsToNobody(t *testing.T) {
	for _, tty := range []bool{true, false} {
		var events atomic.Int32
		var late Start
		launch := Launch{Argv: []string{"/bin/true"}, Dir: "/", TTY: tty, OpenStdin: true, Events: func(Event) { events.Add(1) }}
		before := countDescriptors(t)
		_, err := Spawn(t.Context(), launch, fakeStarter(func(_ context.Context, start Start) (Leader, error) {
			late = start
			return nil, context.Canceled
		}))
		if !errors.Is(err, messages.ErrCancelled) {
			t.Errorf("error %v", err)
		}
		late.Exited(messages.StatusExited(0), nil)
		late.Background(1)
		late.TreeEnded(messages.TreeReport{})
		if now := countDescriptors(t); events.Load() != 0 || now > before { // an earlier test's may have been closed meanwhile
			t.Errorf("%d events, %d descriptors more", events.Load(), now-before)
		}
	}
}

func TestAHostWithoutDescriptorsIsToldSoAndKeepsWhatItHad(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }()
	for _, tty := range []bool{true, false} {
		before := countDescriptors(t)
		for room := range 7 { // the number of descriptors that are free when Spawn begins
			tight := syscall.Rlimit{Cur: uint64(before - 1 + room), Max: limit.Max}
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &tight); err != nil {
				t.Fatal(err)
			}
			launch := Launch{Argv: []string{"/bin/true"}, Dir: "/", TTY: tty, OpenStdin: true, Events: func(Event) {}}
			_, err := Spawn(t.Context(), launch, fakeStarter(func(context.Context, Start) (Leader, error) { return nil, syscall.EMFILE }))
			_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
			if typed, ok := errors.AsType[*messages.Error](err); !ok || typed.Code != messages.ErrSpawnFailed || !strings.Contains(typed.Detail, "raise its limit") {
				t.Errorf("room for %d: %v", room, err)
			}
			now := countDescriptors(t)
			if now > before {
				t.Fatalf("room for %d: %d descriptors before, %d after", room, before, now)
			}
			before = now // an earlier test's may have been closed meanwhile
		}
	}
}
