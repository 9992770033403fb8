package tree

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/isolate"
	"github.com/execbus/execbus/sandbox/internal/leasetest"
)

// last has the last reports of a tree.
type last struct {
	status Status
	left   int
	report Report
}

// startIsolated starts a shell in namespaces, and returns when the shell has written something. What a kept tree has left gets SIGTERM.
func startIsolated(t *testing.T, f *Forest, keep bool, script string) (*Tree, <-chan last) {
	t.Helper()
	runtime.LockOSThread() // the command would end with this thread
	t.Cleanup(runtime.UnlockOSThread)
	if err, _ := isolate.Probe(true); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	network, sockets, err := isolate.NewNetwork(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	for _, socket := range sockets {
		_ = unix.Close(socket)
	}
	reports, report, err := isolate.Reports()
	if err != nil {
		t.Fatal(err)
	}
	output, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = output.Close() })
	var words last
	said := make(chan last, 2)
	var tree *Tree
	left := func(count int) {
		if words.left = count; keep {
			_ = tree.Signal(unix.SIGTERM, 0)
		}
	}
	tree, err = f.BeginIsolated(Spec{Keep: keep, Grace: 50 * time.Millisecond, Exited: func(s Status) { words.status = s }, Left: left,
		Ended: func(r Report) { words.report = r; said <- words }},
		isolate.Namespaced(isolate.Launch{Plan: &confine.Plan{}, Files: []int{-1, int(out.Fd()), int(out.Fd())}, Report: report,
			Network: network, Program: "/bin/sh", Argv: []string{"sh", "-c", script}}), reports)
	_, _ = out.Close(), unix.Close(report)
	if err == nil {
		err = tree.Executed()
	}
	if err != nil {
		t.Fatal(err)
	}
	go tree.Watch()
	var room [100]byte
	if _, err := output.Read(room[:]); err != nil {
		t.Error(err)
	}
	return tree, said
}

func (l last) is(status Status, left, ended int) bool {
	return l.status == status && l.left == left && l.report.Ended == ended && l.report.Airtight && len(l.report.Survivors) == 0
}

func TestAnIsolatedTreeEndsWithItsFirstProcess(t *testing.T) {
	for _, test := range []struct {
		name, script string
		grace        time.Duration // of the end; 0 if it ends by itself
		status       Status
		left, ended  int
	}{
		{"alone", "echo; exit 3", 0, Status{Exited, 3}, 0, 0},
		{"killed", "echo; kill -9 $$", 0, Status{Signaled, 9}, 0, 0},
		{"daemons", "setsid sleep 1000 & (setsid sleep 1000 & ) ; echo; exit 4", 0, Status{Exited, 4}, 2, 2},
		{"ended", "sleep 1000 & echo; sleep 1000", patience, Status{Signaled, 15}, 0, 2},
		{"trapped", "trap 'exit 5' TERM; echo; while :; do sleep 0.01; done", patience, Status{Exited, 5}, 0, 0},
		{"stubborn", "trap '' TERM; echo; while :; do sleep 0.01; done", 500 * time.Millisecond, Status{Signaled, 9}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := NewForest()
			tree, said := startIsolated(t, f, false, test.script)
			if test.grace > 0 {
				tree.End(test.grace)
			}
			select {
			case got := <-said:
				if test.grace > 0 { // the number of processes that the ending meets varies
					got.left, got.report.Ended = test.left, test.ended
				}
				if !got.is(test.status, test.left, test.ended) {
					t.Errorf("%+v", got)
				}
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
			tree.wait(patience)
			if again := []error{tree.pidfd.Close(), tree.isolated.reports.Close()}; !errors.Is(again[0], os.ErrClosed) || !errors.Is(again[1], os.ErrClosed) {
				t.Errorf("it leaves descriptors open: %v", again)
			}
			if len(f.trees)+len(f.unborn)+len(f.unsaid) > 0 {
				t.Errorf("%v, %v, %v", f.trees, f.unborn, f.unsaid)
			}
		})
	}
}

func TestAnIsolatedLeaderIsWhoCanBeSignalled(t *testing.T) {
	f := NewForest()
	tree, said := startIsolated(t, f, false, "trap 'exit 6' USR1; echo; while :; do sleep 0.01; done")
	if name, err := os.ReadFile("/proc/" + strconv.Itoa(tree.PID()) + "/comm"); err != nil || string(name) != "sh\n" {
		t.Errorf("the leader is %q, %v", name, err)
	}
	if err := tree.Signal(unix.SIGUSR1, tree.PID()); err != nil {
		t.Error(err)
	}
	if got := <-said; got.status != (Status{Exited, 6}) {
		t.Errorf("%+v", got)
	}
}

func TestAKeptIsolatedTreeLivesUntilItsLastProcess(t *testing.T) {
	f := NewForest()
	tree, said := startIsolated(t, f, true, "sleep 1000 & echo; exit 0")
	select {
	case got := <-said:
		if !got.is(Status{Exited, 0}, 1, 0) {
			t.Errorf("%+v", got)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	tree.wait(patience)
}

func TestAnIsolatedStartThatHangsIsGivenUp(t *testing.T) {
	program, giveBack := leasetest.Leased(t, "/bin/true")
	if err, _ := isolate.Probe(true); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	f := NewForest()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	reports, report, err := isolate.Reports()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := f.BeginIsolated(Spec{}, isolate.Namespaced(isolate.Launch{Plan: &confine.Plan{Network: true}, Report: report, Program: program,
		Argv: []string{"true"}}), reports)
	_ = unix.Close(report)
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(patience); tree.child.Step() != "execve"; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("no start hangs; it is at %s", tree.child.Step())
		}
	}
	tree.GiveUp()
	if err := tree.Executed(); !errors.Is(err, unix.ETIMEDOUT) {
		t.Error(err)
	}
	giveBack()
}

func TestAnOrphanOfANamespaceIsFoundThoughItsParentDiesDuringAWalk(t *testing.T) {
	tree, said := startIsolated(t, NewForest(), false, "(setsid sleep 1000 &) ; echo; exec sleep 1000")
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // a walk begins with process 1, and ends with this
		if found, settled := tree.roots(); settled && len(found) == 2 {
			break
		}
		if time.Now().After(late) {
			t.Error("process 1 has not got it")
			break
		}
	}
	tree.End(0)
	<-said
}
