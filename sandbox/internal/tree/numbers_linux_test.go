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
		leader.born = time.Now() // this machine may be slow
		if nothing := leader.forkedNothing(); left && nothing {
			t.Errorf("%s: what it has forked was not found", script)
		} else if last, err := lastPID(); !left && !nothing && err == nil && last >= leader.pid && last-leader.pid < manyPIDs/2 {
			t.Errorf("%s: something was found", script)
		}
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}
}

func TestNumbersProveNothingAfterALongLife(t *testing.T) {
	leader := exitedLeader(t, `exit 0`)
	round, err := roundTime()
	if err != nil {
		t.Skip("skipped: the kernel does not say how many numbers there are: ", err)
	}
	leader.born = time.Now().Add(-round)
	if leader.forkedNothing() {
		t.Error("all numbers may have been given out since")
	}
	leader.born = time.Now()
	leader.begun = true
	leader.remember([]process{{pid: 1, start: leader.earliest}})
	if leader.forkedNothing() {
		t.Error("a known member may live under any number")
	}
}
