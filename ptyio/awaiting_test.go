//go:build linux

package ptyio

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// observed is a leader with one member that reads.
type observed struct {
	gone
	reader func() *Reader
	err    error
}

func (o *observed) Reader(InputFile) (*Reader, error) { return o.reader(), o.err }

func (*observed) Listeners() ([]Listener, error) { return nil, nil }

func asleep() *Reader {
	return &Reader{PID: 7, Program: "cat", Still: func() bool { return true }}
}

// staged is a child without a process, whose side of the terminal or of the pipes the test has.
type staged struct {
	Child
	leader  *observed
	in, out *os.File
	arrived chan Output // unreleased
	gate    chan struct{}
}

// stage starts one. Each output waits at the gate, if there is one, before it arrives.
func stage(t *testing.T, tty bool, gate chan struct{}) *staged {
	t.Helper()
	s := &staged{leader: &observed{reader: asleep}, arrived: make(chan Output, Credits), gate: gate}
	var end func()
	over := make(chan struct{})
	child, err := Spawn(t.Context(), Launch{Argv: []string{"/bin/true"}, Dir: "/", TTY: tty, OpenStdin: true, Merged: true, Events: func(event Event) {
		switch e := event.(type) {
		case Output:
			if s.gate != nil {
				<-s.gate
			}
			s.arrived <- e
		case Closed:
			close(over)
		}
	}}, fakeStarter(func(_ context.Context, start Start) (Leader, error) {
		end = func() {
			start.Exited(messages.StatusExited(0), nil)
			start.TreeEnded(messages.TreeReport{})
		}
		for i, file := range []**os.File{&s.in, &s.out} {
			fd, err := unix.FcntlInt(start.Files[i].Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			*file = os.NewFile(uintptr(fd), "theirs")
		}
		return s.leader, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	s.Child = child
	t.Cleanup(func() {
		_, _ = s.in.Close(), s.out.Close()
		end()
		child.Abandon()
		<-over
	})
	return s
}

func (s *staged) awaits(t *testing.T) *messages.AwaitedInput {
	t.Helper()
	awaited, err := s.Child.(Inquirer).AwaitedInput()
	if err != nil {
		t.Error(err)
	}
	return awaited
}

// soon is awaits, until somebody waits: our reader may be looking for output at any moment.
func (s *staged) soon(t *testing.T) *messages.AwaitedInput {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if got := s.awaits(t); got != nil {
			return got
		}
	}
	t.Error("nobody waits")
	return nil
}

// enter writes input, and waits until it was taken.
func (s *staged) enter(t *testing.T, input string) {
	t.Helper()
	done := make(chan error, 1)
	s.Write([]byte(input), time.Time{}, func(_ Taken, err error) { done <- err })
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func (s *staged) mode(t *testing.T, clear uint32) {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(s.in.Fd()), getTermios)
	if err == nil {
		state.Lflag &^= clear
		err = unix.IoctlSetTermios(int(s.in.Fd()), setTermios, state)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestTheModesOfTheTerminalTellTheKindOfInput(t *testing.T) {
	for _, c := range []struct {
		clear uint32
		want  messages.InputKind
	}{{0, messages.InputLine}, {unix.ECHO, messages.InputSecret}, {unix.ICANON, messages.InputKeys}, {unix.ICANON | unix.ECHO, messages.InputKeys}} {
		s := stage(t, true, nil)
		s.mode(t, c.clear)
		if got := s.soon(t); got == nil || *got != (messages.AwaitedInput{Kind: c.want, PID: 7, Program: "cat"}) {
			t.Errorf("%x: %+v", c.clear, got)
		}
		s.leader.reader = func() *Reader { return &Reader{Watches: true, Still: func() bool { return true }} }
		if got := s.soon(t); got == nil || got.Guess != (c.want != messages.InputKeys) || got.Only {
			t.Errorf("an event loop, %x: %+v", c.clear, got)
		}
		s.leader.reader = func() *Reader { return &Reader{Only: true, Still: func() bool { return true }} }
		if got := s.soon(t); got == nil || got.Guess || !got.Only {
			t.Errorf("one that waits for nothing else, %x: %+v", c.clear, got)
		}
	}
}

func TestNobodyAwaitsInputThatIsThere(t *testing.T) {
	for _, tty := range []bool{true, false} {
		s := stage(t, tty, nil)
		s.soon(t)
		s.enter(t, "x\n")
		if got := s.awaits(t); got != nil {
			t.Errorf("tty=%v: %+v, though it could read", tty, got)
		}
		if _, err := s.in.Read(make([]byte, 8)); err != nil {
			t.Error(err)
		}
		if tty {
			(<-s.arrived).Release() // the echo
		}
		s.soon(t)
		s.leader.reader = func() *Reader {
			return &Reader{Still: func() bool { // it looks asleep, and has read by the end
				s.enter(t, "x\n")
				_, _ = s.in.Read(make([]byte, 8))
				if tty {
					(<-s.arrived).Release()
				}
				return true
			}}
		}
		if got := s.awaits(t); got != nil {
			t.Errorf("tty=%v: %+v, though input came meanwhile", tty, got)
		}
	}
}

func TestOneThatHasWokenUpDoesNotWait(t *testing.T) {
	s := stage(t, true, nil)
	s.leader.reader = func() *Reader { return &Reader{Still: func() bool { return false }} }
	if got := s.awaits(t); got != nil {
		t.Errorf("%+v", got)
	}
	s.leader.reader = func() *Reader { return nil }
	if got := s.awaits(t); got != nil {
		t.Errorf("%+v", got)
	}
}

// The text before a prompt must be there when the prompt is reported.
func TestAllOutputComesBeforeTheReader(t *testing.T) {
	for _, tty := range []bool{true, false} {
		gate := make(chan struct{})
		s := stage(t, tty, gate)
		for n := range Credits + 1 { // the last one finds no credit, and stays in the kernel
			s.leader.reader = func() *Reader {
				_, _ = s.out.WriteString("x")
				s.leader.reader = asleep
				return asleep()
			}
			if got := s.awaits(t); got != nil {
				t.Errorf("tty=%v, output %d: %+v", tty, n, got)
			}
			if n == Credits {
				break
			}
			for range 2 { // it is read, but waits at the gate
				if got := s.awaits(t); got != nil {
					t.Errorf("tty=%v, output %d waits: %+v", tty, n, got)
				}
			}
			gate <- struct{}{}
			s.soon(t)
		}
		go func() { gate <- struct{}{} }()
		for range Credits + 1 {
			(<-s.arrived).Release()
		}
	}
}

func TestWhatCannotBeObservedIsAnError(t *testing.T) {
	s := stage(t, true, nil)
	s.leader.reader, s.leader.err = func() *Reader { return nil }, errors.New("not now")
	if got, err := s.Child.(Inquirer).AwaitedInput(); got != nil || errors.Is(err, messages.ErrUnsupported) || !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("what may succeed later: %+v, %v", got, err)
	}
	s.leader.err = errors.ErrUnsupported
	s.leader.reader = func() *Reader { return nil }
	if got, err := s.Child.(Inquirer).AwaitedInput(); got != nil || !errors.Is(err, messages.ErrUnsupported) {
		t.Errorf("%+v, %v", got, err)
	}
	blind := &child{leader: gone{}, stdin: InputFile{Inode: 1}, ended: make(chan struct{})}
	if got, err := blind.AwaitedInput(); got != nil || !errors.Is(err, messages.ErrUnsupported) {
		t.Errorf("%+v, %v", got, err)
	}
	closed := &child{leader: gone{}, ended: make(chan struct{})}
	if got, err := closed.AwaitedInput(); got != nil || err != nil {
		t.Errorf("without an input: %+v, %v", got, err)
	}
}
