package birth

import (
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// filesOf returns the descriptors of this process and what they refer to.
func filesOf(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, fd := range descriptors(t) {
		if target, err := os.Readlink("/proc/self/fd/" + fd); err == nil {
			all[fd] = target
		}
	}
	return all
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

func TestAChildThatSharesItsParentsDescriptorsChangesNone(t *testing.T) {
	if !closesRanges() {
		t.Skip("the kernel has no close_range")
	}
	gate, opens := pipe(t)
	read, write := pipe(t)
	for range 100 { // others, which the child must not get
		pipe(t)
	}
	before := filesOf(t)
	out := int(write.Fd())
	wait := Call("wait", unix.SYS_READ, number(gate.Fd()), NewMemory(0).At(0), number(1))
	n, done := begin(t, "wait", slices.Concat([]Step{wait}, FewFiles([]int{out, out, -1}), []Step{shell("echo /proc/self/fd/* >&1")})...)
	if n.PIDFD < 256 {
		t.Errorf("its pidfd is %d, below which children copy all", n.PIDFD)
	}
	if _, err := opens.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
	if status := reap(t, n.PID, n.PIDFD); status != 0 {
		t.Errorf("status %#x", status)
	}
	if after := filesOf(t); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
	_ = write.Close()
	text, err := io.ReadAll(read)
	if got := strings.Fields(string(text)); err != nil || len(got) > 3 { // the shell has the folder open
		t.Errorf("it has %v, %v", got, err)
	}
}

func TestAChildThatCannotHaveItsOwnDescriptorsFails(t *testing.T) {
	if !closesRanges() {
		t.Skip("the kernel has no close_range")
	}
	before := filesOf(t)
	steps := FewFiles([]int{-1, -1, -1})
	steps[0].call.args[2] = number(1 << 20) // no such flag
	_, _, err := Start(append(steps, shell("exit 3")))
	if want := (Error{"close_range", 0, unix.EINVAL}); err == nil || *err.(*Error) != want {
		t.Errorf("%v, want %v", err, &want)
	}
	if after := filesOf(t); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

func TestADescriptorIsPutAside(t *testing.T) {
	open := func(least int) int { // a descriptor of at least that number
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, least)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	few := open(0)
	defer unix.Close(few)
	if got := Aside(few); few >= 128 || got != few {
		t.Errorf("%d, one of a few, became %d", few, got)
	}
	low := open(128)
	high := Aside(low)
	defer unix.Close(high)
	if got := Aside(high); got != high {
		t.Errorf("%d became %d", high, got)
	}
	if flags, err := unix.FcntlInt(uintptr(high), unix.F_GETFD, 0); high < 256 || err != nil || flags != unix.FD_CLOEXEC {
		t.Errorf("%d with flags %d, %v", high, flags, err)
	}
	if _, err := unix.FcntlInt(uintptr(low), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the old one: %v", err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) }()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	low = open(128)
	defer unix.Close(low)
	if got := Aside(low); got != low {
		t.Errorf("%d became %d", low, got)
	}
}
