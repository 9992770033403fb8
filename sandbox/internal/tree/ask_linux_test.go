package tree

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// scripted is a tree whose leader runs a script.
type scripted struct {
	*Tree
	t     *testing.T
	in    *os.File
	out   *os.File
	lines *bufio.Scanner
	ended chan Report
}

// script runs a script, and waits until it says "begun".
func script(t *testing.T, text string) *scripted {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	read, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	s := &scripted{t: t, in: in, out: out, lines: bufio.NewScanner(out), ended: make(chan Report, 1)}
	s.Tree, err = NewForest().Start(Spec{Program: "/bin/bash", Argv: []string{"bash", "-c", "exec 2>/dev/null; " + text}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
		Files:  []int{int(read.Fd()), int(write.Fd()), 2},
		Exited: func(Status) {}, Left: func(int) {}, Ended: func(r Report) { s.ended <- r }})
	_, _ = read.Close(), write.Close()
	if err != nil {
		t.Fatal(err)
	}
	s.await("begun")
	return s
}

func (s *scripted) await(want string) {
	for s.lines.Scan() {
		if s.lines.Text() == want {
			return
		}
	}
	s.t.Errorf("the script never said %q", want)
}

// goOn lets the script go on until it says "ready".
func (s *scripted) goOn() {
	_, _ = s.in.WriteString("go\n")
	s.await("ready")
}

// ask ends the tree with a grace, and lets the script go on between the walk and the signals. It returns what the script says then.
func (s *scripted) ask() string {
	roots, once, ready := s.roots, sync.Once{}, make(chan struct{})
	s.roots = func() (found []procs.Process, settled bool) {
		found, settled = roots()
		once.Do(func() {
			s.goOn()
			close(ready)
		})
		return found, settled
	}
	go s.Watch()
	s.End(long)
	<-ready
	return s.rest()
}

// rest returns what the script says to its end, and waits for that of the tree.
func (s *scripted) rest() string {
	late := time.AfterFunc(patience, func() { s.End(0) })
	defer late.Stop()
	var said []string
	for s.lines.Scan() {
		said = append(said, s.lines.Text())
	}
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Error("the tree does not end")
	}
	s.wait(patience)
	return strings.Join(said, " ")
}

// long is a grace that no test waits for: what it meets ends when it is asked.
const long = time.Minute

// child is a script that says whether it was asked to end.
const child = `trap "echo asked; exit 0" TERM; echo ready; while :; do sleep 0.01; done`

func TestAChildThatIsForkedWhileATreeIsBeingAskedIsAsked(t *testing.T) {
	for name, text := range map[string]string{
		"in the group of its parent":         `trap "wait; exit 0" TERM; echo begun; read x; (` + child + `) & wait; wait`,
		"in a group of its own":              `set -m; trap "wait; exit 0" TERM; echo begun; read x; (` + child + `) & wait; wait`,
		"in a session of its own":            `trap "wait; exit 0" TERM; echo begun; read x; setsid -w bash -c '` + child + `' & wait; wait`,
		"that leaves its group meanwhile":    `trap "wait; exit 0" TERM; (echo begun; read x <&3; exec setsid bash -c '` + child + `') 3<&0 & wait; wait`,
		"in a group whose leader was reaped": `set -m; trap "wait; exit 0" TERM; true | { ` + lone + `echo begun; read x <&3; ` + child + `; } 3<&0 & wait; wait`,
		"while another ignores that":         `(trap "" TERM; while kill -0 $$; do sleep 0.01; done) 2>/dev/null & trap "exit 0" TERM; echo begun; read x; ` + child,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if said := script(t, text).ask(); said != "asked" {
				t.Errorf("it said %q", said)
			}
		})
	}
}

// lone waits until the process that leads the shell's group has been reaped.
const lone = `read _ _ _ _ group _ </proc/$BASHPID/stat; while [ -e /proc/$group ]; do sleep 0.01; done; `

func TestAChildThatNoWalkHasFoundIsSignalledWithItsGroup(t *testing.T) {
	for name, text := range map[string]string{
		"the leader's":  `trap "wait; exit 0" TERM; echo begun; read x; (` + child + `) & wait; wait`,
		"another group": `set -m; trap "wait; exit 0" TERM; (trap "wait; exit 0" TERM; echo begun; read x <&3; (` + child + `) & wait; wait) 3<&0 & wait; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			s := script(t, text)
			go s.Watch()
			members := s.others()
			s.goOn()
			whole, reached, err := s.sendAll(members, unix.SIGTERM)
			if len(whole) < 2 && name == "another group" {
				s.End(0)
				t.Skip("skipped: this kernel signals no group by a pidfd")
			}
			if reached != len(members) {
				t.Errorf("%d of %d members were reached: %v", reached, len(members), err)
			}
			if said := s.rest(); said != "asked" {
				t.Errorf("it said %q", said)
			}
		})
	}
}

// A trap of a shell with job control starts each of its commands in a group of its own.
func TestTheWorkOfATrapIsNotAsked(t *testing.T) {
	for _, set := range []string{"set -e", "set -em"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			work := `echo new >` + dir + `/x; cp ` + dir + `/x ` + dir + `/tmp; sleep 0.2; mv ` + dir + `/tmp ` + dir + `/y; echo done; exit 0`
			said := script(t, set+`; trap '`+work+`' TERM; echo begun; read x; echo ready; while :; do read -t 0.01 x || :; done`).ask()
			if text, err := os.ReadFile(dir + "/y"); said != "done" || string(text) != "new\n" {
				t.Errorf("it said %q and left %q, %v", said, text, err)
			}
		})
	}
}

func TestMembersThatWereMissed(t *testing.T) {
	member := func(pid, group, parent int) procs.Process {
		return procs.Process{PID: pid, Group: group, PPID: parent, Start: uint64(pid)}
	}
	a := &asking{traps: true, asked: map[procs.Identity]int{}, whole: map[int]bool{10: true}, given: 21, sent: 30}
	for pid, group := range map[int]int{10: 10, 11: 10, 12: 10, 13: 13, 14: alone} {
		a.asked[procs.Identity{PID: pid, Start: uint64(pid)}] = group
	}
	found := []procs.Process{
		member(10, 10, 1), member(11, 10, 10), // signalled with their group
		member(12, 12, 10),                     // has left it: missed
		member(13, 13, 10), member(14, 14, 10), // signalled alone
		member(20, 10, 10), // born in it
		member(21, 21, 10), // forked before: missed
		member(22, 22, 10), // forked meanwhile, perhaps by a trap
		member(23, 23, 1),  // forked meanwhile by a member that had no signal yet: missed
		member(31, 31, 1),  // forked later
	}
	pids := func(last int, blocked ...int) (pids []int) {
		for _, p := range a.missed(found, last, func(p procs.Process) bool { return slices.Contains(blocked, p.PID) }) {
			pids = append(pids, p.PID)
		}
		return pids
	}
	if got := pids(40); !slices.Equal(got, []int{12, 21, 23}) {
		t.Errorf("%v", got)
	}
	if got := pids(0); !slices.Equal(got, []int{12}) { // the kernel does not say which pid it gave out last
		t.Errorf("%v", got)
	}
	a.traps = false
	if got := pids(0); !slices.Equal(got, []int{12, 20, 21, 22, 23, 31}) {
		t.Errorf("without a trap: %v", got)
	}
	if got := pids(40, 20); !slices.Equal(got, []int{12, 20, 21, 22, 23, 31}) {
		t.Errorf("one that was not asked holds the signal back: %v", got)
	}
	if got := pids(40, 11); !slices.Equal(got, []int{12, 21, 23}) {
		t.Errorf("one holds the signal back: %v", got)
	}
	for _, c := range []struct {
		first, pid, last int
		want             bool
	}{{5, 6, 7, true}, {5, 7, 7, true}, {5, 5, 7, false}, {5, 8, 7, false}, {5, 5, 5, false}, {30, 31, 4, true}, {30, 4, 4, true},
		{30, 30, 4, false}, {30, 5, 4, false}} {
		if between(c.first, c.pid, c.last) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

func TestAGroupThatWasLeftIsNotSignalled(t *testing.T) {
	f := NewForest()
	leader, exit := startReader(t, f, func(report) {})
	defer func() {
		exit()
		leader.Watch()
	}()
	p, err := procs.Read(leader.pid)
	if err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("sleep", "1000")
	stranger.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Wait() }()
	defer func() { _ = stranger.Process.Kill() }()
	left := p
	left.Group = stranger.Process.Pid // as if that had been the number of its group
	if err := leader.sendGroup(left, unix.SIGKILL); err != unix.ESRCH {
		t.Errorf("a group that the member is not in: %v", err)
	}
	another := procs.Process{PID: stranger.Process.Pid, Group: stranger.Process.Pid, Start: 1} // the pid was used again
	if err := leader.sendGroup(another, unix.SIGKILL); err != unix.ESRCH {
		t.Errorf("a member that another process has replaced: %v", err)
	}
	if p, err := procs.Read(stranger.Process.Pid); err != nil || p.Dead() {
		t.Error("a stranger was hit")
	}
}

func TestWhatIsAskedLateMayHaveATrap(t *testing.T) {
	s := script(t, `trap "echo asked; exit 0" TERM; echo begun; while :; do sleep 0.01; done`)
	go s.Watch()
	a := &asking{asked: map[procs.Identity]int{}, wait: 2 * askAgain}
	if s.again(a) == nil || !a.traps {
		t.Errorf("%+v", a)
	}
	if said := s.rest(); said != "asked" {
		t.Errorf("it said %q", said)
	}
}

func TestTheLooksForMissedMembersEnd(t *testing.T) {
	tree := walked(NewForest(), func() ([]procs.Process, bool) { return nil, true })
	a, looks := tree.ask(), 0
	for ; a != nil && looks < 100; looks++ {
		a = tree.again(a)
	}
	if looks != 5 {
		t.Errorf("%d looks", looks)
	}
}
