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

// readString waits for bytes on Go's poller.
func readString(t *testing.T, m *end) string {
	t.Helper()
	buffer := make([]byte, 64)
	n, failed := 0, error(nil)
	err := m.Read(func(fd uintptr) bool {
		n, failed = syscall.Read(int(fd), buffer)
		return failed != syscall.EAGAIN
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return string(buffer[:n])
}

func TestATerminalLeavesThePollerAndComesBackWithOneDescriptor(t *testing.T) {
	_, _ = rawTerminal(t) // the first one also makes Go's poller
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
		writing.Go(func() { _, _ = theirs.WriteString(word) })
		if got := readString(t, ours); got != word {
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
	again := func(uintptr) bool { return false }
	_, _ = ours.leave()
	_ = ours.SetReadDeadline(past)
	_ = ours.SetWriteDeadline(past)
	if err := ours.Read(again); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	_, _ = ours.leave()
	if err := ours.Write(again); !errors.Is(err, os.ErrDeadlineExceeded) {
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
	err := ours.Control(func(uintptr) {
		if _, left := ours.leave(); left || ours.offPoller() {
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
				_ = ours.SetWriteDeadline(past)
				_ = ours.Write(func(uintptr) bool { return true })
				if _, ok := ours.leave(); ok {
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
