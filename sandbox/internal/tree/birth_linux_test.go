package tree

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/leasetest"
)

// beginHanging begins a leader that is not executed.
func beginHanging(t *testing.T, f *Forest, program string, said chan<- report) *Tree {
	t.Helper()
	leader, err := f.Begin(Spec{Program: program, Argv: []string{program}, Dir: "/",
		Exited: func(status Status) { said <- report{"exited", status} },
		Left:   func(int) { said <- report{what: "left"} },
		Ended:  func(Report) { said <- report{what: "ended"} }})
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(patience); leader.child.Step() != "execve"; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("it hangs in %q", leader.child.Step())
		}
	}
	if leader.Prompt(50 * time.Millisecond) {
		t.Fatal("it does not hang")
	}
	return leader
}

func TestABirthThatHangsKeepsNobodyElseWaiting(t *testing.T) {
	f, hung, said := NewForest(), make(chan report, 10), make(chan report, 10)
	program, giveBack := leasetest.Leased(t, "/bin/true")
	hanging := beginHanging(t, f, program, hung)
	executed := make(chan error, 1)
	go func() { executed <- hanging.Executed() }()

	leader, exit := startReader(t, f, func(r report) { said <- r })
	leader.spec.Over = nil
	exit()
	go leader.Watch()
	expect(t, said, report{"exited", Status{Exited, 3}})
	expect(t, said, report{what: "ended"})

	if len(executed) > 0 {
		t.Fatal("it does not hang any more")
	}
	giveBack()
	if err := <-executed; err != nil {
		t.Fatal(err)
	}
	go hanging.Watch()
	expect(t, hung, report{"exited", Status{Exited, 0}})
	expect(t, hung, report{what: "ended"})
	f.EndAll(0)
}

func TestTheEndOfAForestKillsWhatHangsInItsBirth(t *testing.T) {
	f, said := NewForest(), make(chan report, 10)
	program, _ := leasetest.Leased(t, "/bin/true")
	hanging := beginHanging(t, f, program, said)
	executed := make(chan error, 1)
	go func() {
		executed <- hanging.Executed()
		hanging.Watch()
	}()
	if left := f.EndAll(0); len(left) > 0 {
		t.Errorf("%+v", left)
	}
	if err := <-executed; err != nil {
		t.Errorf("a leader that was killed has not started: %v", err)
	}
	expect(t, said, report{"exited", Status{Signaled, int(unix.SIGKILL)}})
	expect(t, said, report{what: "ended"})
	if _, err := f.Start(Spec{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a start afterwards: %v", err)
	}
	if err := unix.Kill(hanging.PID(), 0); err != unix.ESRCH {
		t.Errorf("it is left: %v", err)
	}
}

func TestTheEndOfAForestAsksAProgramThatNobodyHasAttendedTo(t *testing.T) {
	f, said := NewForest(), make(chan report, 10)
	leader, err := f.Begin(Spec{Program: "/bin/sleep", Argv: []string{"sleep", "60"}, Dir: "/",
		Exited: func(status Status) { said <- report{"exited", status} },
		Left:   func(int) { said <- report{what: "left"} },
		Ended:  func(Report) { said <- report{what: "ended"} }})
	if err != nil {
		t.Fatal(err)
	}
	if !leader.Prompt(patience) || !leader.child.Over() {
		t.Fatal("it is not executed")
	}
	left := make(chan []Survivor)
	go func() { left <- f.EndAll(patience) }()
	for closed := false; !closed; {
		f.forking.Lock()
		closed = f.closed
		f.forking.Unlock()
	}
	time.Sleep(20 * time.Millisecond) // for a signal that must not come
	if err := leader.Executed(); err != nil {
		t.Error(err)
	}
	go leader.Watch()
	expect(t, said, report{"exited", Status{Signaled, int(unix.SIGTERM)}})
	expect(t, said, report{what: "ended"})
	if left := <-left; len(left) > 0 {
		t.Errorf("%+v", left)
	}
}

func TestABirthThatWillNotDieIsNamed(t *testing.T) {
	f, said := NewForest(), make(chan report, 10)
	program, giveBack := leasetest.Leased(t, "/bin/true")
	hanging := beginHanging(t, f, program, said)
	if left := f.endUnborn(time.Now()); len(left) != 1 || left[0].PID != hanging.PID() || left[0].Why == "" {
		t.Errorf("%+v", left) // the test has not ended it
	}
	giveBack()
	_ = hanging.Executed()
	hanging.Watch()
	if left := f.endUnborn(time.Now()); len(left) > 0 {
		t.Errorf("%+v", left)
	}
}

func TestAFailedBirthLeavesNothing(t *testing.T) {
	f := NewForest()
	for program, want := range map[string]syscall.Errno{"/missing": syscall.ENOENT, "/": syscall.EACCES} {
		if _, err := f.Start(Spec{Program: program, Argv: []string{"x"}, Dir: "/"}); !errors.Is(err, want) {
			t.Errorf("%s: %v", program, err)
		}
	}
	if _, err := f.Start(Spec{Program: "/bin/true", Argv: []string{"x"}, Dir: "/missing"}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("%v", err)
	}
	if len(f.trees)+len(f.unborn)+len(f.unsaid) > 0 {
		t.Errorf("%v, %v, %v", f.trees, f.unborn, f.unsaid)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WALL|syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("child %d: %v", pid, err)
	}
}

func TestALeaderSharesOurDescriptorsOnlyBesideManyOthers(t *testing.T) {
	if unix.CloseRange(1<<30, 1<<30, 0) != nil {
		t.Skip("the kernel has no close_range")
	}
	for _, others := range []int{manyTrees - 1, manyTrees} {
		f, said := NewForest(), make(chan report, 10)
		for i := range others {
			f.trees[-1-i] = &Tree{forest: f}
		}
		var gate [2]int
		if err := unix.Pipe2(gate[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		leader, err := f.Begin(Spec{Program: "/bin/true", Argv: []string{"true"}, Dir: "/", Exited: func(Status) {}, Left: func(int) {},
			Ended:   func(Report) { said <- report{what: "ended"} },
			Confine: []birth.Step{birth.Try(birth.System("wait", unix.SYS_READ, uintptr(gate[0]), 0, 1))}})
		clear(f.trees)
		if err != nil {
			t.Fatal(err)
		}
		f.trees[leader.pid] = leader
		var private [2]int
		if err := unix.Pipe2(private[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		_, shared := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", leader.pid, private[0]))
		if (shared == nil) != (others == manyTrees) {
			t.Errorf("beside %d others: %v", others, shared)
		}
		if _, err := unix.Write(gate[1], []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := leader.Executed(); err != nil {
			t.Fatal(err)
		}
		_, _, _, _ = unix.Close(gate[0]), unix.Close(gate[1]), unix.Close(private[0]), unix.Close(private[1])
		go leader.Watch()
		expect(t, said, report{what: "ended"})
	}
}
