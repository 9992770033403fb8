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

// proves reports whether the numbers prove that nothing is left of an exited leader, as if it had begun just now: this machine may be
// slow.
func proves(leader *Tree) bool {
	b := leader.forest.pids.begin()
	leader.begin = moment{b.series, b.given - (b.last - leader.pid + 1), leader.pid - 1}
	return leader.forkedNothing()
}

// tries is how often a proof may fail because others fork just then, or this test does not run for long.
const tries = 100

func TestWhatALeaderHasForkedIsFoundByItsNumber(t *testing.T) {
	for script, left := range map[string]bool{
		`exit 0`:                          false,
		`(exit 0); exit 0`:                false,
		`sleep 1000 & exit 0`:             true,
		`set -m; sleep 1000 & exit 0`:     true, // in a group of its own
		`(sleep 1000 & exit 0); exit 0`:   true,
		`setsid -w sh -c "exit 0" & wait`: false,
	} {
		t.Run(script, func(t *testing.T) {
			stranger := exec.Command("sleep", "1000")
			if err := stranger.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = stranger.Process.Kill()
				_ = stranger.Wait()
			}()
			if !left {
				proven(t, script)
			} else if proves(exitedLeader(t, script)) {
				t.Error("what it has forked was not found")
			}
		})
	}
}

// proven returns a leader of which the numbers prove that nothing is left.
func proven(t *testing.T, script string) *Tree {
	t.Helper()
	named := false
	for range tries {
		leader := exitedLeader(t, script)
		if proves(leader) {
			return leader
		}
		found, err := findPIDs()
		named = named || err == nil && found.last >= leader.pid && found.round > 0
	}
	if !named {
		t.Skip("skipped: /proc does not say here which number the kernel gave out last, or hardly any are free")
	}
	t.Fatal("the numbers never prove that nothing is left of: ", script)
	return nil
}

func TestNumbersProveNothingOnceAllMayHaveBeenGivenOut(t *testing.T) {
	for what, happens := range map[string]func(p *pids, leader *Tree){
		"all were given out":       func(p *pids, _ *Tree) { p.given += p.found.count },
		"the last look is too old": func(p *pids, _ *Tree) { p.looked = p.looked.Add(-p.found.round) },
		"another look has come too late": func(p *pids, leader *Tree) {
			p.looked = time.Time{}
			p.look()
			p.given = leader.begin.given + 1 // the new series may have got as far
		},
		"there were more of them":                     func(p *pids, _ *Tree) { p.found.count++ },
		"there were fewer of them":                    func(p *pids, _ *Tree) { p.found.count-- },
		"nearly all were in use":                      func(p *pids, _ *Tree) { p.found.round = 0 },
		"the leader's is not one of those given out":  func(_ *pids, leader *Tree) { leader.begin.last = leader.pid },
		"a member that is known may have any of them": func(_ *pids, leader *Tree) { know(leader, 1) },
	} {
		leader := proven(t, `exit 0`)
		happens(&leader.forest.pids, leader)
		if leader.forkedNothing() {
			t.Errorf("%s, and the numbers prove that nothing is left", what)
		}
	}
}

func know(leader *Tree, pid int) {
	leader.begun = true
	leader.remember([]process{{pid: pid, start: leader.earliest}})
}

func TestAProofOutlivesARoundIfOthersLook(t *testing.T) {
	for range tries {
		leader := proven(t, `exit 0`)
		proofs := 0
		for range 4 {
			leader.forest.pids.looked = leader.forest.pids.looked.Add(-leader.forest.pids.found.round / 2)
			if leader.forkedNothing() {
				proofs++
			}
		}
		if proofs == 4 {
			return
		}
	}
	t.Error("no proof has outlived a round")
}

func TestALookCountsWhatWasGivenOut(t *testing.T) {
	now, err := findPIDs()
	if err != nil {
		t.Skip("skipped: the kernel does not say which number it gave out last: ", err)
	}
	for _, before := range []int{7, now.count / 2} { // half of all, so that it has begun again since, or would have
		counted := 0
		for range tries {
			p := pids{looked: time.Now(), found: now}
			p.found.last = (now.last - before + now.count) % now.count
			if p.look(); p.series == 0 { // in time
				counted = p.given
				break
			}
			now, _ = findPIDs()
		}
		if counted < before || counted > before+now.count/4 {
			t.Errorf("%d numbers were counted instead of %d or a few more", counted, before)
		}
	}
}

func TestALookThatIsNotOldIsNotRepeated(t *testing.T) {
	p := pids{looked: time.Now()}
	p.found.round = time.Hour
	if p.begin(); p.found.count != 0 {
		t.Error("it was")
	}
	p.looked = p.looked.Add(-time.Hour / 2)
	if p.begin(); p.found.count == 0 && canFind(t) {
		t.Error("an old one was not")
	}
}

func canFind(t *testing.T) bool {
	_, err := findPIDs()
	if err != nil {
		t.Log("skipped: the kernel does not say which number it gave out last: ", err)
	}
	return err == nil
}
