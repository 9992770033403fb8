//go:build linux

package ptyio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// rawTerminal opens a terminal in raw mode. The test holds both sides.
func rawTerminal(t *testing.T) (ours *end, theirs *os.File) {
	t.Helper()
	return lineTerminal(t, func(mode *unix.Termios) { mode.Iflag, mode.Oflag, mode.Lflag = 0, 0, 0 })
}

// offPoller reports whether a terminal is off Go's poller.
func (m *end) offPoller() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file == nil
}

func resize(m *end) error {
	return control(m, func(fd int) error { return setSize(fd, messages.Size{Rows: 7, Cols: 9}) })
}

// readString waits for bytes on Go's poller. Before it waits it calls these functions.
func readString(t *testing.T, m *end, waits ...func()) string {
	t.Helper()
	buffer := make([]byte, 64)
	n, failed := 0, error(nil)
	err := m.Read(func(fd uintptr) bool {
		if n, failed = syscall.Read(int(fd), buffer); failed != syscall.EAGAIN {
			return true
		}
		for _, before := range waits {
			before()
		}
		waits = nil
		return false
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return string(buffer[:n])
}

func TestATerminalLeavesThePollerAndComesBackWithOneDescriptor(t *testing.T) {
	first, other := rawTerminal(t)
	if _, err := first.watched(); err != nil { // the first file on the poller opens two descriptors, which stay
		t.Fatal(err)
	}
	_, _ = first.Close(), other.Close()
	before := countDescriptors(t)
	ours, theirs := rawTerminal(t)
	for _, word := range []string{"one", "two", "three"} {
		if fd, ok := ours.leave(); !ok || !ours.offPoller() || fd != ours.fd {
			t.Fatal("it did not leave the poller")
		}
		if again, ok := ours.leave(); !ok || again != ours.fd {
			t.Error("a second leave changed the descriptor")
		}
		if err := resize(ours); err != nil {
			t.Error(err)
		}
		if now := countDescriptors(t); now != before+2 {
			t.Errorf("%d descriptors for both sides", now-before)
		}
		var writing sync.WaitGroup
		waits := make(chan struct{})
		writing.Go(func() {
			<-waits
			_, _ = theirs.WriteString(word)
		})
		if got := readString(t, ours, func() { close(waits) }); got != word {
			t.Errorf("read %q", got)
		}
		writing.Wait() // until then a Close would not free the descriptor
		if ours.offPoller() {
			t.Error("a read waited off the poller")
		}
		if err := resize(ours); err != nil {
			t.Error(err)
		}
	}
	_, _ = ours.leave()
	if err := errors.Join(ours.Close(), theirs.Close()); err != nil {
		t.Error(err)
	}
	if now := countDescriptors(t); now != before {
		t.Errorf("%d descriptors are left", now-before)
	}
	if _, ok := ours.leave(); ok || resize(ours) != os.ErrClosed || ours.Read(nil) != os.ErrClosed || ours.Close() == nil {
		t.Error("a closed terminal can be used")
	}
}

func TestDeadlinesOutliveTheChangeOfTheDescriptor(t *testing.T) {
	ours, _ := rawTerminal(t)
	late := func(set func(time.Time) error) func(uintptr) bool { // it is late when it has looked, and before it is on the poller
		return func(uintptr) bool { _ = set(past); return false }
	}
	_, _ = ours.leave()
	if err := ours.Read(late(ours.SetReadDeadline)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	_, _ = ours.leave()
	if err := ours.Write(late(ours.SetWriteDeadline)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if _, ok := ours.leave(); !ok {
		t.Error("a write that is over keeps the terminal on the poller")
	}
}

func TestATerminalStaysOnThePollerForAWriteThatWaits(t *testing.T) {
	ours, theirs := rawTerminal(t)
	_, _ = ours.leave()
	rest := bytes.Repeat([]byte("x"), 1<<20)
	size, waits, written := len(rest), make(chan struct{}), make(chan error)
	var once sync.Once
	go func() {
		written <- ours.Write(func(fd uintptr) bool {
			for len(rest) > 0 {
				n, err := syscall.Write(int(fd), rest)
				if err == syscall.EAGAIN {
					once.Do(func() { close(waits) })
					return false
				}
				rest = rest[max(n, 0):]
			}
			return true
		})
	}()
	<-waits
	if _, ok := ours.leave(); ok {
		t.Error("it left the poller, which a write needs")
	}
	if _, err := io.CopyN(io.Discard, theirs, int64(size)); err != nil {
		t.Error(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if _, ok := ours.leave(); !ok {
		t.Error("it cannot leave the poller again")
	}
}

// A write calls the terminal and waits for the lock of the input, whose holder calls the terminal, too.
func TestADescriptorThatIsUsedStaysAndKeepsNobodyWaiting(t *testing.T) {
	ours, _ := rawTerminal(t)
	err := ours.Control(func(fd uintptr) {
		if _, left := ours.leave(); left || ours.fd != int(fd) {
			t.Error("the descriptor changed while it was used")
		}
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
		_ = ours.SetWriteDeadline(past)
		if err := resize(ours); err != os.ErrClosed {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCloseEndsAWriteThatWaits(t *testing.T) {
	ours, _ := rawTerminal(t)
	waits, written := make(chan struct{}), make(chan error)
	go func() {
		called := false
		written <- ours.Write(func(uintptr) bool {
			if !called {
				called = true
				close(waits)
			}
			return false
		})
	}()
	<-waits
	_ = ours.Close()
	if err := <-written; err == nil {
		t.Error("the write succeeded")
	}
}

func TestADescriptorInUseIsClosedByItsLastUser(t *testing.T) {
	for _, back := range []bool{false, true} {
		ours, _ := rawTerminal(t)
		_, _ = ours.leave()
		err := control(ours, func(fd int) error {
			if back { // a write brought it back on the poller meanwhile
				looks := 0
				_ = ours.Write(func(uintptr) bool { looks++; return looks > 1 })
				if _, ok := ours.leave(); ok || ours.offPoller() {
					t.Error("the descriptor of a user was changed")
				}
			}
			_ = ours.Close()
			_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			return err
		})
		if err != nil {
			t.Errorf("back %v: the descriptor was closed under its user: %v", back, err)
		}
		if _, err := unix.FcntlInt(uintptr(ours.fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("back %v: the descriptor is still open", back)
		}
	}
}

// Controls, writes and the reader use a terminal at once, while it leaves the poller and comes back.
func TestATerminalIsUsedByManyWhileItChanges(t *testing.T) {
	ours, theirs := rawTerminal(t)
	echo := make(chan struct{})
	go func() {
		defer close(echo)
		_, _ = io.Copy(theirs, theirs)
	}()
	const times = 500
	var users sync.WaitGroup
	users.Go(func() {
		for range times {
			if err := resize(ours); err != nil {
				t.Error(err)
			}
		}
	})
	users.Go(func() {
		for range times {
			err := ours.Write(func(fd uintptr) bool {
				_, err := syscall.Write(int(fd), []byte("x"))
				return err == nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	for got := 0; got < times; {
		_, _ = ours.leave()
		got += len(readString(t, ours))
	}
	users.Wait()
	_ = ours.Close()
	<-echo
}

func TestThePollerWatchesOnlyWhatIsWaitedFor(t *testing.T) {
	fd, theirs, err := openPipe(false)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours := newEnd(fd)
	defer ours.Close()
	_, _ = theirs.WriteString("here")
	if got := readString(t, ours); got != "here" || !ours.offPoller() {
		t.Errorf("%q was read, watched %v", got, !ours.offPoller())
	}
	if got := readString(t, ours, func() { _, _ = theirs.WriteString("late") }); got != "late" || ours.offPoller() {
		t.Errorf("%q was read, watched %v", got, !ours.offPoller())
	}
}

func TestAnEndThatNobodyWatchesHeedsItsDeadlines(t *testing.T) {
	fd, theirs, err := openPipe(true)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours := newEnd(fd)
	defer ours.Close()
	_ = ours.SetWriteDeadline(past)
	if err := ours.Write(func(uintptr) bool { t.Error("it was tried after its deadline"); return true }); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// Close finds nothing on the poller that it could wake, because the reader only looks.
func TestAnEndThatIsClosedDuringALookIsNotWaitedFor(t *testing.T) {
	fd, theirs, err := openPipe(false)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours := newEnd(fd)
	if err := ours.Read(func(uintptr) bool { _ = ours.Close(); return false }); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
