package tree

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMarksAreDistinctAndFallInTheirRange(t *testing.T) {
	outer := newMarker(unix.RLIM_INFINITY, 0xffffffff, smallest+5)
	seen := map[Mark]bool{}
	before := Mark(1 << 63)
	for range 1000 {
		mark := outer.advance()
		if seen[mark] || mark >= before || !outer.Marks().contains(mark, smallest+5) || !mark.outer() {
			t.Fatalf("mark %x", mark)
		}
		seen[mark], before = true, mark
	}
	if outer.Marks().contains(before, smallest+6) {
		t.Error("the nonce of another warden")
	}
}

func TestANestedWardensMarksBelongToTheTreeItRunsIn(t *testing.T) {
	outer := newMarker(unix.RLIM_INFINITY, 0, smallest)
	first, second := outer.advance(), outer.advance()
	nested := newMarker(uint64(first), 0, smallest+1)
	given := 0
	for mark := nested.advance(); mark != 0; mark = nested.advance() {
		if !first.Same(mark) || second.Same(mark) || mark == first || !nested.Marks().contains(mark, smallest+1) {
			t.Fatalf("mark %x in %x", mark, first)
		}
		if other := nested.next; mark.Same(other) {
			t.Fatalf("%x and %x are the same", mark, other)
		}
		given++
	}
	if given != 1<<nestedBits-2 {
		t.Errorf("%d marks", given)
	}
	if !first.Same(nested.all.Low) {
		t.Error("what runs unmarked there belongs to nobody")
	}
	if twice := newMarker(uint64(first-1), 0, smallest); twice.advance() != 0 && twice.stride != 0 {
		t.Error("a warden in a warden in a warden gives marks")
	}
}

func TestAnAdministratorsLimitIsLeftAlone(t *testing.T) {
	for _, limit := range []uint64{0, 1, 200_000, smallest - 1, smallest} {
		if m := newMarker(limit, 1, smallest); m.stride != 0 || m.Next() != 0 {
			t.Errorf("limit %d", limit)
		}
	}
}

func TestNoMarkIsTheSameAsNone(t *testing.T) {
	if Mark(0).Same(0) || Mark(0).Same(5) || Mark(5).Same(0) {
		t.Error("zero is a mark")
	}
}

func TestTheMarkOfAProcessIsRead(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("no prlimit program")
	}
	command := exec.Command("prlimit", "--rttime=77777:99999", "sh", "-c", "echo up; read x")
	in, _ := command.StdinPipe()
	out, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 3))
	if mark, soft := markOf(command.Process.Pid); mark != 99999 || soft != 77777 {
		t.Errorf("%d %d", mark, soft)
	}
	_ = in.Close()
	_ = command.Wait()
	if mark, soft := markOf(command.Process.Pid); mark != 0 || soft != 0 {
		t.Errorf("of nobody: %d %d", mark, soft)
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
		p, err := readProcess(command.Process.Pid)
		if err != nil || !strings.HasPrefix(name, p.name) || p.ppid != os.Getpid() || p.start == 0 || p.threads != 1 || p.dead() {
			t.Errorf("%q: %+v, %v", name, p, err)
		}
		if again, _ := readProcess(p.pid); again.identity() != p.identity() {
			t.Errorf("%+v became %+v", p, again)
		}
		stranger := p
		stranger.start++
		if err := send(stranger, unix.SIGKILL); err != unix.ESRCH {
			t.Errorf("a stranger was signalled: %v", err)
		}
		if err := send(p, unix.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = command.Wait()
		if _, err := readProcess(p.pid); !gone(err) {
			t.Errorf("after the end: %v", err)
		}
	}
}
