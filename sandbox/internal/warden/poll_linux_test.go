package warden

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newTestPoll(t *testing.T) *poll {
	t.Helper()
	p, err := newPoll()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(p.fd), unix.Close(p.bell) })
	return p
}

func TestTheBellWakesUntilItIsHeard(t *testing.T) {
	p := newTestPoll(t)
	if ready := p.wait(time.Millisecond); len(ready) > 0 {
		t.Errorf("%v is ready", ready)
	}
	go p.ring()
	for range 2 {
		var ready []unix.EpollEvent
		for len(ready) == 0 { // signals of the runtime interrupt a wait
			ready = p.wait(-1)
		}
		if len(ready) != 1 || int(ready[0].Fd) != p.bell {
			t.Errorf("%v is ready", ready)
		}
	}
	p.hear()
	if ready := p.wait(0); len(ready) > 0 {
		t.Errorf("%v is ready", ready)
	}
}

func TestWhatWasRemovedIsNeverReadyThoughOthersHoldIt(t *testing.T) {
	p := newTestPoll(t)
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[1])
	held, err := unix.Dup(ends[0])
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held)
	if _, err := unix.Write(ends[1], []byte{0}); err != nil {
		t.Fatal(err)
	}
	if err := p.add(ends[0]); err != nil || len(p.wait(0)) != 1 {
		t.Fatalf("it is not ready: %v", err)
	}
	p.remove(ends[0])
	_ = unix.Close(ends[0])
	if ready := p.wait(0); len(ready) > 0 {
		t.Errorf("%v is ready", ready)
	}
}
