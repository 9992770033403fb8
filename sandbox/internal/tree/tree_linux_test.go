package tree

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// patience is what only a defect makes a test wait for.
const patience = time.Minute

// report is one of a leader's reports.
type report struct {
	what   string
	status Status
}

// startReader starts a leader that exits when its input ends. say gets its reports.
func startReader(t *testing.T, f *Forest, say func(report)) (leader *Tree, exit func()) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	leader, err = f.Start(Spec{Program: "/bin/sh", Argv: []string{"sh", "-c", "read x; exit 3"},
		Dir: "/", Files: []int{int(read.Fd())},
		Exited: func(status Status) { say(report{"exited", status}) },
		Left:   func(int) { say(report{what: "left"}) },
		Ended:  func(Report) { say(report{what: "ended"}) },
		Over:   func(status Status, _ Report) { say(report{"over", status}) }})
	if err != nil {
		t.Fatal(err)
	}
	return leader, func() { _ = write.Close() }
}

func expect(t *testing.T, said <-chan report, want report) {
	t.Helper()
	select {
	case got := <-said:
		if got != want {
			t.Errorf("%+v was reported instead of %+v", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("%+v was never reported", want)
	}
}

// newTestSubreaper makes a forest whose orphans come to the calling goroutine's thread, with one report for an exit and an end.
func newTestSubreaper(t *testing.T) *Forest {
	t.Helper()
	if !procs.HasChildrenFiles() {
		t.Skip("the kernel has no lists of children")
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	f := NewForest()
	f.subreaper, f.marker = true, &Marker{}
	f.adopt(unix.Gettid())
	return f
}

// exit waits until a leader has exited, and reports that as the warden does.
func exit(t *testing.T, leader *Tree) {
	t.Helper()
	for n := 0; n <= 0; { // a signal of Go's scheduler may interrupt a poll
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(leader.PIDFD()), Events: unix.POLLIN}}, int(patience/time.Millisecond))
	}
	leader.Exit()
}

func TestALoneLeaderIsReportedOnce(t *testing.T) {
	f, said := newTestSubreaper(t), make(chan report, 10)
	leader, end := startReader(t, f, func(r report) { said <- r })
	end()
	exit(t, leader)
	expect(t, said, report{"over", Status{Exited, 3}})
	leader.wait(patience)
	if len(said) > 0 || len(f.trees)+len(f.unsaid) > 0 {
		t.Errorf("%d more reports, %d and %d trees are left", len(said), len(f.trees), len(f.unsaid))
	}
}

func TestAnExitIsReportedWhileALookTakesLong(t *testing.T) {
	for what, lock := range map[string]func(f *Forest) *sync.Mutex{
		"a tree concludes": func(f *Forest) *sync.Mutex { return &f.concluding },
		"a tree searches":  func(f *Forest) *sync.Mutex { return &f.first.walks.mu },
	} {
		t.Run(what, func(t *testing.T) {
			f, said := newTestSubreaper(t), make(chan report, 10)
			leader, end := startReader(t, f, func(r report) { said <- r })
			busy := lock(f)
			busy.Lock()
			end()
			exit(t, leader)
			expect(t, said, report{"exited", Status{Exited, 3}})
			busy.Unlock()
			expect(t, said, report{what: "ended"})
			leader.wait(patience)
			if len(said) > 0 {
				t.Errorf("%+v was reported, too", <-said)
			}
		})
	}
}

func TestTheEndOfAForestWaitsForTheLastReport(t *testing.T) {
	for _, waits := range []string{"over", "ended"} {
		t.Run(waits, func(t *testing.T) {
			f, speaking, silence := newTestSubreaper(t), make(chan struct{}), make(chan struct{})
			leader, end := startReader(t, f, func(r report) {
				if r.what == waits {
					close(speaking)
					<-silence
				}
			})
			end()
			if waits == "over" {
				go exit(t, leader)
			} else {
				go leader.Watch()
			}
			<-speaking
			ended := make(chan struct{})
			go func() {
				f.EndAll(0)
				close(ended)
			}()
			select {
			case <-ended:
				t.Error("the end did not wait")
			case <-time.After(100 * time.Millisecond):
			}
			close(silence)
			<-ended
		})
	}
}

func TestAnEndAtTheInstantOfTheExitIsReportedOnce(t *testing.T) {
	f := newTestSubreaper(t)
	for i := range 100 {
		said := make(chan report, 10)
		leader, end := startReader(t, f, func(r report) { said <- r })
		go end()
		go leader.End(time.Duration(i%3) * time.Millisecond)
		if i%2 == 0 {
			leader.Watch()
		} else {
			exit(t, leader)
		}
		leader.wait(patience)
		close(said)
		words := ""
		for r := range said {
			words += r.what + " "
		}
		if words != "over " && words != "exited ended " {
			t.Errorf("reported: %s", words)
		}
	}
	if left := f.EndAll(0); len(left) > 0 || len(f.trees)+len(f.unsaid) > 0 {
		t.Errorf("%v, %d, %d are left", left, len(f.trees), len(f.unsaid))
	}
}

func TestAFrozenTreeStands(t *testing.T) {
	said := make(chan report, 10)
	f := NewForest()
	leader, exit := startReader(t, f, func(r report) { said <- r })
	defer func() {
		leader.End(0)
		exit()
		leader.Watch()
	}()
	if refused := leader.freeze(); len(refused) > 0 {
		t.Errorf("%v", refused)
	}
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if p, err := procs.Read(leader.pid); err != nil || p.Stopped() {
			break
		}
		if time.Now().After(late) {
			t.Fatal("it runs")
		}
	}
}

// walked makes a tree. Its walks find what the test says, one after the other.
func walked(f *Forest, walks ...func() ([]procs.Process, bool)) *Tree {
	t := &Tree{forest: f}
	t.roots = func() ([]procs.Process, bool) {
		next := walks[0]
		if len(walks) > 1 {
			walks = walks[1:]
		}
		return next()
	}
	return t
}

func TestATreeIsDesertedOnlyWhenAWalkThatSettledHasFoundNothing(t *testing.T) {
	nothing := func() ([]procs.Process, bool) { return nil, true }
	unsettled := func() ([]procs.Process, bool) { return nil, false }
	member := func() ([]procs.Process, bool) { p, _ := procs.Read(os.Getpid()); return []procs.Process{p}, true }
	subreaper := NewForest()
	subreaper.subreaper = true
	for i, c := range []struct {
		tree *Tree
		want bool
	}{
		{walked(subreaper, nothing), true},
		{walked(subreaper, unsettled, member), false},
		{walked(subreaper, unsettled, nothing), true},
		{walked(subreaper, unsettled), false},
		{walked(NewForest(), nothing, member), false}, // a scan of all of /proc may have missed it
		{walked(NewForest(), nothing), true},
	} {
		if got := c.tree.deserted(); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

func TestASearchThatNeverSettlesClaimsNothing(t *testing.T) {
	f := NewForest()
	f.subreaper = true
	tree := walked(f, func() ([]procs.Process, bool) { return nil, false })
	tree.mark = 1
	if left := tree.kill(time.Now()); len(left) > 0 || tree.treeReport(left, nil).Airtight {
		t.Errorf("%v, %+v", left, tree.treeReport(left, nil))
	}
}

func TestATreeIsNotOverWhileAnOrphanMayBelongToIt(t *testing.T) {
	f, said := newTestSubreaper(t), make(chan report, 10)
	leader, end := startReader(t, f, func(r report) { said <- r })
	if leader.endsWithout([]orphan{{Process: procs.Process{PID: 1}, trees: []*Tree{leader}}}) {
		t.Error("it is over")
	}
	end()
	exit(t, leader)
	expect(t, said, report{"over", Status{Exited, 3}})
}
