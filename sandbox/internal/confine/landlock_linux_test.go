package confine

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// kernels says what a rule set may contain for each version, according to the kernel's documentation.
var kernels = []struct {
	abi     int
	files   uint64 // the number of rights to files
	size    uintptr
	offline uint64 // rights to the network that a rule set takes away when it is off
	scoped  uint64
}{
	{1, 1<<13 - 1, 8, 0, 0}, {2, 1<<14 - 1, 8, 0, 0}, {3, 1<<15 - 1, 8, 0, 0}, {4, 1<<15 - 1, 16, 3, 0}, {5, 1<<16 - 1, 16, 3, 0},
	{6, 1<<16 - 1, 24, 3, 3}, {7, 1<<16 - 1, 24, 3, 3}, {8, 1<<16 - 1, 24, 3, 3}, {9, 1<<17 - 1, 24, 3, 3}, {10, 1<<17 - 1, 24, 15, 3},
}

func TestEachVersionIsAskedForAllItKnowsAndNoMore(t *testing.T) {
	if last := kernels[len(kernels)-1].abi; last != newestABI {
		t.Errorf("version %d is not in the table", newestABI)
	}
	for _, k := range kernels {
		off, size := handled(k.abi, false)
		if off.files != k.files || size != k.size || off.network != k.offline || off.scoped != k.scoped {
			t.Errorf("version %d: %+v of %d bytes, want %+v", k.abi, off, size, k)
		}
		if on, _ := handled(k.abi, true); on.network != 0 || on.files != off.files || on.scoped != off.scoped {
			t.Errorf("version %d with the network: %+v", k.abi, on)
		}
	}
}

func TestOlderVersionsMakeRuleSetsHere(t *testing.T) {
	newest := Kernel().ABI
	if newest == 0 {
		t.Skipf("skipped: no Landlock here: %v", Kernel().Errno)
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	rules := []Allowed{{root, List}, {root, ReadFile}, {root, ReadDirectory}, {root, UseDevice}, {root, WriteFile}, {root, WriteDirectory}, {root, Connect}}
	for abi := 1; abi <= newest; abi++ {
		for _, network := range []bool{false, true} {
			fd, err := Ruleset(abi, network, rules)
			if err != nil {
				t.Errorf("version %d: %v", abi, err)
				continue
			}
			_ = unix.Close(fd)
		}
	}
	if newest < newestABI {
		if fd, err := Ruleset(newestABI, false, nil); err == nil {
			_ = unix.Close(fd)
			t.Errorf("the kernel knows version %d, and takes a rule set of version %d", newest, newestABI)
		}
	}
	if _, err := Ruleset(1, false, []Allowed{{-1, List}}); err == nil {
		t.Error("a rule about nothing")
	}
}

func TestTheFilterFitsThePlan(t *testing.T) {
	writes := Plan{Rules: []Rule{{Path: "/x", Access: Write}}}
	if k := KindOf(&Plan{}); !k.Metadata || k.Network != seccomp.Off {
		t.Errorf("%+v", k)
	}
	if k := KindOf(&writes); k.Metadata {
		t.Errorf("%+v", k)
	}
	if k := KindOf(&Plan{Network: true}); k.Network != seccomp.On || k.Unix != (Kernel().ABI >= 9) || k.Truncate != (Kernel().ABI < 3) {
		t.Errorf("%+v", k)
	}
}

func TestOnlyTheThreadsOfAFilterAndTheirChildrenKnowItsSecret(t *testing.T) {
	if errno := Filters(); errno != 0 {
		t.Skipf("skipped: no filters here: %v", errno)
	}
	work, done := make(chan func()), make(chan struct{})
	defer close(work)
	go func() {
		runtime.LockOSThread() // for good: the filter cannot be removed
		for do := range work {
			do()
			done <- struct{}{}
		}
	}()
	on := func(do func()) {
		work <- do
		<-done
	}
	var secret birth.Secret
	var err error
	if on(func() { secret, err = Filter(seccomp.Kind{}) }); err != nil {
		t.Fatal(err)
	}
	mark := birth.Rlimit(unix.RLIMIT_RTTIME, 1<<40, 1<<40)
	read := func(steps ...birth.Step) (string, error) {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fds[0])
		var pid, pidfd int
		var err error
		all := slices.Concat(steps, birth.Files([]int{-1, fds[1], fds[1]}), []birth.Step{birth.Execve("/bin/sh",
			[]string{"sh", "-c", "grep -E 'Seccomp:|NoNewPrivs' /proc/self/status; grep realtime /proc/self/limits | tr -s ' '"}, []string{"PATH=/usr/bin:/bin"})})
		on(func() { pid, pidfd, err = birth.Start(all) })
		_ = unix.Close(fds[1])
		if err != nil {
			return "", err
		}
		text := make([]byte, 1000)
		size := 0
		for {
			m, err := unix.Read(fds[0], text[size:])
			if m <= 0 || err != nil {
				break
			}
			size += m
		}
		_, _ = unix.Wait4(pid, nil, 0, nil)
		_ = unix.Close(pidfd)
		return string(text[:size]), nil
	}
	got, err := read(mark.Showing(secret))
	if err != nil || !strings.Contains(got, "NoNewPrivs:\t1") || !strings.Contains(got, "Seccomp:\t2") || !strings.Contains(got, "1099511627776") {
		t.Errorf("%s, %v", got, err)
	}
	for i := range 2 {
		wrong := secret
		wrong[i] ^= 1
		if got, err := read(mark.Showing(wrong)); err == nil {
			t.Errorf("with a wrong secret: %s", got)
		}
	}
	if got, err := read(mark); err == nil {
		t.Errorf("without the secret: %s", got)
	}
	if here := seccompHere(t); here != 0 {
		t.Errorf("this thread has %d filters", here)
	}
}

func seccompHere(t *testing.T) int {
	t.Helper()
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return mode
}
