package tree

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// exitedLeader runs a script to its leader's exit.
func exitedLeader(t *testing.T, script string) *Tree {
	t.Helper()
	leader, err := NewForest().Start(Spec{Program: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: "/",
		Exited: func(Status) {}, Left: func(int) {}, Ended: func(Report) {}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(leader.PIDFD()), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 {
		t.Fatal("the leader does not exit: ", err)
	}
	close(leader.exited)
	t.Cleanup(func() { leader.kill(time.Now().Add(killWait)); leader.forest.forget(leader) })
	return leader
}

func TestWhatALeaderHasForkedIsFoundByItsNumber(t *testing.T) {
	for script, left := range map[string]bool{
		`exit 0`:                          false,
		`(exit 0); exit 0`:                false,
		`sleep 1000 & exit 0`:             true,
		`set -m; sleep 1000 & exit 0`:     true, // in a group of its own
		`(sleep 1000 & exit 0); exit 0`:   true,
		`setsid -w sh -c "exit 0" & wait`: false,
	} {
		leader := exitedLeader(t, script)
		stranger := exec.Command("sleep", "1000")
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		leader.begin = leader.forest.pids.begin() // this machine may be slow
		if nothing := leader.forkedNothing(); left && nothing {
			t.Errorf("%s: what it has forked was not found", script)
		} else if last, err := lastPID(); !left && !nothing && err == nil && last >= leader.pid && last-leader.pid < manyPIDs/2 {
			t.Errorf("%s: something was found", script)
		}
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}
}

func TestNumbersProveNothingOnceAllMayHaveBeenGivenOut(t *testing.T) {
	if _, err := lastPID(); err != nil {
		t.Skip("skipped: the kernel does not say which number it gave out last: ", err)
	}
	r := longRound(t)
	leader := exitedLeader(t, `exit 0`)
	p := &leader.forest.pids
	if !leader.forkedNothing() {
		t.Fatal("the numbers do not prove that the leader has forked nothing")
	}
	for range 4 { // a long life, in which others were looked at
		p.looked = time.Now().Add(-r.lasts / 2)
		if !leader.forkedNothing() {
			t.Error("no look came too late")
		}
	}
	p.given += r.count
	if leader.forkedNothing() {
		t.Error("all numbers were given out since")
	}
	p.given -= r.count
	p.looked = time.Now().Add(-r.lasts)
	if leader.forkedNothing() {
		t.Error("all numbers may have been given out since the last look")
	}
	if leader.forkedNothing() {
		t.Error("what was given out before that look is unknown")
	}
	leader.begin = p.begin()
	leader.begun = true
	leader.remember([]process{{pid: 1, start: leader.earliest}})
	if leader.forkedNothing() {
		t.Error("a known member may live under any number")
	}
}

// longRound makes the round last longer than this machine can be slow.
func longRound(t *testing.T) *pidRound {
	r, err := roundNow()
	if err != nil {
		t.Skip("skipped: the kernel does not say how many numbers there are: ", err)
	}
	r = &pidRound{r.count, time.Minute, time.Now().Add(time.Hour)}
	lastRound.Store(r)
	t.Cleanup(func() { lastRound.Store(nil) })
	return r
}

func TestALookIsRepeatedBeforeARoundIsOver(t *testing.T) {
	r := longRound(t)
	var p pids
	first := p.begin()
	if again := p.begin(); again != first || p.looked.IsZero() {
		t.Error("a look that is not old was repeated, or none was made")
	}
	p.looked = time.Now().Add(-r.lasts / 2)
	old := p.looked
	if p.begin(); !p.looked.After(old) {
		t.Error("an old look was not repeated")
	}
	p.last = (p.last + r.count - 7) % r.count // seven or more were given out since
	before := p.given
	if _, ok := p.since(first); !ok || p.given-before < 7 {
		t.Errorf("%d numbers were counted instead of 7", p.given-before)
	}
}
