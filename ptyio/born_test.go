//go:build linux

package ptyio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// gone is a leader that has ended.
type gone struct{}

func (gone) PID() int                         { return 1 << 22 }
func (gone) Signal(syscall.Signal, int) error { return syscall.ESRCH }
func (gone) EndTree(time.Duration)            {}
func (gone) Enforced() *messages.Enforcement  { return nil }

// A starter may report the birth, and with it the whole life of a command, before Start returns.
func TestACommandThatIsOverAtOnceReportsAllOfItsLife(t *testing.T) {
	for _, early := range []bool{true, false} {
		for _, output := range []string{"", "hello"} {
			for _, tty := range []bool{true, false} {
				t.Run(fmt.Sprintf("early=%v,output=%q,tty=%v", early, output, tty), func(t *testing.T) { testOverAtOnce(t, early, output, tty) })
			}
		}
	}
}

func testOverAtOnce(t *testing.T, early bool, output string, tty bool) {
	before := countDescriptors(t)
	events := &lives{over: make(chan struct{})}
	launch := Launch{Argv: []string{"/bin/true"}, Dir: "/", TTY: tty, Events: events.note}
	child, err := Spawn(t.Context(), launch, fakeStarter(func(_ context.Context, start Start) (Leader, error) {
		if _, err := start.Files[1].WriteString(output); err != nil {
			t.Error(err)
		}
		if early {
			start.Born(gone{})
			start.Exited(messages.StatusExited(0), nil)
			start.TreeEnded(messages.TreeReport{})
		} else {
			time.AfterFunc(0, func() {
				start.Exited(messages.StatusExited(0), nil)
				start.TreeEnded(messages.TreeReport{})
			})
		}
		return gone{}, nil
	}))
	if err != nil || child.PID() != (gone{}).PID() {
		t.Fatal(child, err)
	}
	<-events.over
	if events.output != output {
		t.Errorf("output %q", events.output)
	}
	slices.Sort(events.others)
	if got := fmt.Sprint(events.others); got != "[ptyio.Closed ptyio.Drained ptyio.Exited ptyio.Spawned ptyio.TreeEnded]" || events.first != "ptyio.Spawned" {
		t.Errorf("events %s, the first %s", got, events.first)
	}
	if now := countDescriptors(t); now > before { // an earlier test's may have been closed meanwhile
		t.Errorf("%d descriptors more", now-before)
	}
	child.Write([]byte("x"), time.Time{}, func(_ Taken, err error) {
		if want := map[bool]error{true: messages.ErrClosed, false: messages.ErrStdinClosed}[tty]; !errors.Is(err, want) && !errors.Is(err, messages.ErrClosed) {
			t.Error("a write after the end:", err)
		}
	})
	if err := child.Resize(messages.Size{}); !errors.Is(err, messages.ErrClosed) {
		t.Error("a resize after the end:", err)
	}
}

// A leader that lives may close its terminal and open it again.
func TestATerminalThatNobodyHasOpenAtTheBirthIsReadLater(t *testing.T) {
	got, over := make(chan string, 1), make(chan struct{})
	launch := Launch{Argv: []string{"/bin/true"}, Dir: "/", TTY: true, Events: func(event Event) {
		switch e := event.(type) {
		case Output:
			got <- string(e.Bytes)
			e.Release()
		case Closed:
			close(over)
		}
	}}
	var leader Start
	var name string
	_, err := Spawn(t.Context(), launch, fakeStarter(func(_ context.Context, start Start) (Leader, error) {
		leader = start
		var err error
		name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", start.Files[0].Fd()))
		start.Born(gone{})
		return gone{}, err
	}))
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.WriteString("again"); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "again" {
		t.Errorf("output %q", text)
	}
	_ = again.Close()
	leader.Exited(messages.StatusExited(0), nil)
	leader.TreeEnded(messages.TreeReport{})
	<-over
}

// lives are the events of a child.
type lives struct {
	mu            sync.Mutex
	first, output string
	others        []string
	over          chan struct{} // closed at the fifth event besides Output
}

func (l *lives) note(event Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := fmt.Sprintf("%T", event)
	if l.first == "" {
		l.first = name
	}
	if o, is := event.(Output); is {
		l.output += string(o.Bytes)
		o.Release()
		return
	}
	if l.others = append(l.others, name); len(l.others) == 5 {
		close(l.over)
	}
}

// A child that has closed its input takes nothing, from the first write on.
func TestNobodyHearsOfAChildBeforeOurCopiesOfItsFilesAreClosed(t *testing.T) {
	written, over := make(chan struct{}), make(chan struct{})
	launch := Launch{Argv: []string{"/bin/true"}, Dir: "/", OpenStdin: true, Events: func(event Event) {
		switch e := event.(type) {
		case Spawned:
			e.Child.Write([]byte("x"), time.Time{}, func(taken Taken, err error) {
				if taken.Bytes > 0 || !errors.Is(err, messages.ErrStdinClosed) {
					t.Errorf("%d bytes were taken, %v", taken.Bytes, err)
				}
				close(written)
			})
		case Closed:
			close(over)
		}
	}}
	_, err := Spawn(t.Context(), launch, fakeStarter(func(_ context.Context, start Start) (Leader, error) {
		start.Born(gone{})
		<-written
		start.Exited(messages.StatusExited(0), nil)
		start.TreeEnded(messages.TreeReport{})
		return gone{}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	<-over
}
