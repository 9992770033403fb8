package tree

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// unlimited returns the limits of a process that is in no tree.
func unlimited() limits {
	none := pair{unix.RLIM_INFINITY, unix.RLIM_INFINITY}
	return limits{none, none}
}

// of returns the limits that a child of a tree gets.
func of(m Marks, tree Mark) limits {
	n := uint64(tree) * m.stride()
	return limits{pair{m.Nonce, m.Time - n}, pair{m.Nonce, m.Locks + n}}
}

// lowered returns limits that a process without privileges can give to itself or to another process.
func lowered(l limits, time, locks uint64) limits {
	return limits{pair{min(l.time.soft, time), min(l.time.hard, time)}, pair{min(l.locks.soft, locks), min(l.locks.hard, locks)}}
}

// marks returns the marks of a warden that is in no tree, and of one that is in that warden's seventh tree.
func marks() (alone, nested Marks) {
	alone = newMarker(unlimited(), 1<<63+5, 77, 5).Marks()
	return alone, newMarker(of(alone, 7), 0, 0, 6).Marks()
}

func TestALimitNeverSaysAnotherTreesNumber(t *testing.T) {
	alone, nested := marks()
	for name, m := range map[string]Marks{"alone": alone, "nested": nested} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			number := rapid.Uint64Range(1, m.most())
			own := Mark(number.Draw(t, "tree"))
			given := of(m, own)
			if s := m.span(given); s != (span{own, own}) || !m.gave(given) {
				t.Fatalf("%+v is %+v", given, s)
			}
			value := func(name string) uint64 {
				other := of(m, Mark(number.Draw(t, name+" of the tree")))
				return rapid.OneOf(rapid.Just(other.time.hard), rapid.Just(other.locks.hard), rapid.Uint64()).Draw(t, name)
			}
			s := m.span(lowered(given, value("time"), value("locks")))
			if !s.has(own) || s.certain() && s.first != own {
				t.Fatalf("a process of tree %d is taken for one of %+v", own, s)
			}
		}))
	}
}

func TestAProcessThatChangedOneLimitIsStillTheWardens(t *testing.T) {
	alone, _ := marks()
	given := of(alone, 5)
	for _, changed := range []limits{lowered(given, 0, ^uint64(0)), lowered(given, ^uint64(0), 0)} {
		if !alone.gave(changed) || alone.span(changed).certain() {
			t.Errorf("%+v", changed)
		}
	}
	if alone.gave(unlimited()) || alone.span(unlimited()) != anywhere {
		t.Error("a process without limits is the warden's")
	}
	other := given
	other.time.soft, other.locks.soft = alone.Nonce+1, alone.Nonce+1
	if alone.gave(other) {
		t.Error("the nonce of another warden")
	}
	if (Marks{}).gave(limits{}) || (Marks{}).span(given) != anywhere {
		t.Error("no marks say something")
	}
}

func TestANestedWardensMarksBelongToTheTreeItRunsIn(t *testing.T) {
	alone, nested := marks()
	marker := newMarker(of(alone, 7), 0, 0, 6)
	seen := map[limits]bool{}
	given := 0
	for mark := marker.Next(); mark != 0; mark = marker.Next() {
		l := of(nested, mark)
		if s := alone.span(l); s != (span{7, 7}) {
			t.Fatalf("tree %d of the inner warden is %+v to the outer one", mark, s)
		}
		if own := of(alone, 7); seen[l] || l.time.hard > own.time.hard || l.locks.hard > own.locks.hard {
			t.Fatalf("tree %d has %+v", mark, l)
		}
		seen[l] = true
		given++
	}
	if given != 8189 {
		t.Errorf("%d marks", given)
	}
	if s := nested.span(of(alone, 7)); s != anywhere {
		t.Errorf("an unmarked process beside the inner warden is %+v", s)
	}
	if twice := newMarker(of(nested, 1), 0, 0, 0); twice.Next() != 0 {
		t.Error("a warden in a warden in a warden gives marks")
	}
}

func TestMarksAreUsedUp(t *testing.T) {
	m := newMarker(unlimited(), 1, 2, 3)
	m.last = Mark(m.all.most()) - 1
	if last := m.Next(); last == 0 || m.Next() != 0 || m.steps(0, [2]uint32{}) != nil || m.all.span(of(m.all, last)) != (span{last, last}) {
		t.Errorf("%+v", m)
	}
}

func TestAnAdministratorsLimitIsLeftAlone(t *testing.T) {
	for _, limit := range []uint64{0, 1, 200_000, smallest - 1, smallest, 1 << 62} {
		time, locks := unlimited(), unlimited()
		time.time.hard, locks.locks.hard = limit, limit
		for _, now := range []limits{time, locks} {
			if m := newMarker(now, 1, 2, 3); m.Next() != 0 || m.steps(0, [2]uint32{}) != nil {
				t.Errorf("%+v", now)
			}
		}
	}
}

func TestTheLimitsOfAProcessAreRead(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("no prlimit program")
	}
	command := exec.Command("prlimit", "--rttime=77777:99999", "--locks=5:unlimited", "sh", "-c", "echo up; read x")
	in, _ := command.StdinPipe()
	out, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 3))
	want := limits{pair{77777, 99999}, pair{5, unix.RLIM_INFINITY}}
	if got, err := limitsOf(command.Process.Pid); got != want || err != nil {
		t.Errorf("%+v %v", got, err)
	}
	_ = in.Close()
	_ = command.Wait()
	if _, err := limitsOf(command.Process.Pid); !procs.Gone(err) {
		t.Errorf("of nobody: %v", err)
	}
}

func TestStatIsReadWhateverTheName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a) b (c", ") R 1 1 1", "(((", "a\nb", "very-long-name-that-is-cut"} {
		path := t.TempDir() + "/" + name
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		command := exec.Command(path, "1000")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		p, err := procs.Read(command.Process.Pid)
		for begin := time.Now(); !strings.HasPrefix(name, p.Name) && time.Since(begin) < patience; { // an execution sets it late
			p, err = procs.Read(command.Process.Pid)
		}
		if err != nil || !strings.HasPrefix(name, p.Name) || p.PPID != os.Getpid() || p.Start == 0 || p.Threads != 1 || p.Dead() {
			t.Errorf("%q: %+v, %v", name, p, err)
		}
		if again, _ := procs.Read(p.PID); again.ID() != p.ID() {
			t.Errorf("%+v became %+v", p, again)
		}
		stranger := p
		stranger.Start++
		if err := procs.Send(stranger, unix.SIGKILL); err != unix.ESRCH {
			t.Errorf("a stranger was signalled: %v", err)
		}
		if err := procs.Send(p, unix.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = command.Wait()
		if _, err := procs.Read(p.PID); !procs.Gone(err) {
			t.Errorf("after the end: %v", err)
		}
	}
}
