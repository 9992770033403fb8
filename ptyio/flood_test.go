//go:build linux

package ptyio

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// seen is a batch of a terminal, and whether the terminal was off Go's poller when it came.
type seen struct {
	bytes int
	off   bool
}

// readsOn reads a terminal as that of a child. The batches come until end is called, which waits until no more can come.
func readsOn(terminal *end) (batches chan seen, end func()) {
	batches = make(chan seen, 1)
	over := make(chan struct{})
	c := &child{terminal: terminal, input: &input{}, exited: make(chan struct{}), ended: make(chan struct{}), abandoned: make(chan struct{}),
		launch: Launch{TTY: true, Events: func(e Event) {
			switch e := e.(type) {
			case Output:
				batches <- seen{len(e.Bytes), terminal.offPoller()}
				e.Release()
			case Closed:
				close(over)
			}
		}}}
	s := newStream(c, messages.StreamPTY, terminal, Credits)
	c.streams = []*stream{s}
	c.undrained.Store(2)
	c.opened.Store(1)
	go s.run()
	return batches, func() {
		close(c.abandoned)
		c.wake()
		<-over
	}
}

// next is the batch that comes next.
func next(t *testing.T, batches <-chan seen) seen {
	t.Helper()
	select {
	case b := <-batches:
		return b
	case <-time.After(10 * time.Second):
		t.Fatal("no more bytes come")
		return seen{}
	}
}

// flood writes to a terminal and reads all of it. It returns how many bytes came while the terminal was off the poller.
func flood(theirs *os.File, batches <-chan seen) (size, off int) {
	size = 16 << 20
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() { _, _ = theirs.Write(make([]byte, size)) })
	for all := 0; all < size; {
		b := <-batches
		all += b.bytes
		if b.off {
			off += b.bytes
		}
	}
	return size, off
}

// returned waits until a terminal whose flood is over is back on the poller.
func returned(t *testing.T, terminal *end) {
	t.Helper()
	late := time.Now().Add(10 * time.Second)
	for terminal.offPoller() && time.Now().Before(late) {
		<-time.After(time.Millisecond)
	}
	if terminal.offPoller() {
		t.Error("the flood is over, and the terminal is off the poller")
	}
}

func TestAFloodingTerminalIsOffThePollerUntilTheFloodEnds(t *testing.T) {
	ours, theirs := rawTerminal(t)
	batches, end := readsOn(ours)
	defer end()
	size, off := flood(theirs, batches)
	for late := time.Now().Add(10 * time.Second); off < size/2 && time.Now().Before(late); { // a busy machine may be too slow for a flood
		size, off = flood(theirs, batches)
	}
	if off < size/2 {
		t.Errorf("%d of %d bytes came off the poller", off, size)
	}
	returned(t, ours)
	_, _ = theirs.WriteString("x")
	if b := next(t, batches); b.bytes != 1 || b.off {
		t.Errorf("after the flood came %+v", b)
	}
}

// refuse makes the poller refuse terminals until allow is called: a file that blocks when it is made is not given to the poller.
func refuse(t *testing.T) (allow func()) {
	newFile = func(fd uintptr, name string) *os.File {
		_ = syscall.SetNonblock(int(fd), false)
		defer func() { _ = syscall.SetNonblock(int(fd), true) }()
		return os.NewFile(fd, name)
	}
	allow = func() { newFile = os.NewFile }
	t.Cleanup(allow)
	return allow
}

func TestATerminalThatThePollerRefusesAfterAFloodDeliversEverything(t *testing.T) {
	ours, theirs := rawTerminal(t)
	allow := refuse(t)
	batches, end := readsOn(ours)
	for range 2 {
		_, _ = flood(theirs, batches)
		returned(t, ours)
		_, _ = theirs.WriteString("x")
		if b := next(t, batches); b.bytes != 1 {
			t.Errorf("after the flood came %+v", b)
		}
	}
	end()
	allow()
}

func TestATerminalThatThePollerRefusesIsUsedWithoutIt(t *testing.T) {
	ours, theirs := rawTerminal(t)
	allow := refuse(t)
	_, _ = ours.leave()
	if got := readString(t, ours, func() { _, _ = theirs.WriteString("late") }); got != "late" || !ours.blind {
		t.Errorf("%q was read, refused %v", got, ours.blind)
	}
	_ = ours.SetReadDeadline(time.Now().Add(lookAgain))
	if err := ours.Read(func(uintptr) bool { return false }); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	_ = ours.SetReadDeadline(time.Time{})
	looks := 0
	if err := ours.Write(func(uintptr) bool { looks++; return looks == 3 }); err != nil || looks != 3 {
		t.Errorf("%d looks, %v", looks, err)
	}
	if err := resize(ours); err != nil {
		t.Error(err)
	}
	allow()
	_, _ = ours.leave()
	_, _ = theirs.WriteString("x")
	if got := readString(t, ours); got != "x" || ours.blind {
		t.Errorf("%q was read, refused %v", got, ours.blind)
	}
	refuse(t)
	_, _ = ours.leave()
	time.AfterFunc(2*lookAgain, func() { _ = ours.Close() })
	if err := ours.Read(func(uintptr) bool { return false }); err != os.ErrClosed {
		t.Error(err)
	}
}
