package birth

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/refusetest"
)

// refused is a thread for which the kernel refuses clones of our kind, as emulators do, and no others. Only children of this
// thread are made by a second execution.
func refused(t *testing.T) thread {
	t.Helper()
	was := mayExecuteAgain.Load()
	ExecuteAgain()
	n := newThread()
	var err error
	n.do(func() { err = refusetest.Clone(refusetest.ThisThread) })
	t.Cleanup(func() {
		close(n)
		mayExecuteAgain.Store(was)
	})
	if err != nil {
		t.Skipf("skipped: no seccomp here: %v", err)
	}
	return n
}

// thread does what it receives, and ends when it is closed.
type thread chan func()

func newThread() thread {
	n := make(thread)
	go func() {
		runtime.LockOSThread() // for good: its filter cannot be removed
		for do := range n {
			do()
		}
	}()
	return n
}

func (n thread) do(f func()) {
	done := make(chan struct{})
	n <- func() {
		defer close(done)
		f()
	}
	<-done
}

// startAgain starts by a second execution.
func startAgain(t *testing.T, n thread, steps ...Step) (pid, pidfd int, err error) {
	t.Helper()
	n.do(func() {
		var born *Newborn
		if born, err = Begin(steps, Secret{}); err != nil {
			return
		}
		if born.second == nil {
			t.Error("it was not executed again")
		}
		pid, pidfd = born.PID, born.PIDFD
		if err = born.Wait(); err != nil {
			_ = unix.Close(pidfd)
			born.Reap()
		}
		born.Release()
	})
	return pid, pidfd, err
}

// noLimit changes nothing, but syscall.ForkExec has no such step.
func noLimit() Step { return Prctl("keep capabilities", unix.PR_SET_KEEPCAPS, 0) }

// outputAgain is output by a second execution.
func outputAgain(t *testing.T, n thread, steps ...Step) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	out, last := int(write.Fd()), len(steps)-1
	pid, pidfd, err := startAgain(t, n, slices.Concat([]Step{noLimit()}, steps[:last:last], Files([]int{-1, out, out}), steps[last:])...)
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(read)
	if status := reap(t, pid, pidfd); err != nil || status != 0 {
		t.Errorf("%v, status %#x, output %q", err, status, text)
	}
	return strings.TrimSpace(string(text))
}

func TestASecondExecutionMakesTheSteps(t *testing.T) {
	n := refused(t)
	dir, _ := filepath.EvalSymlinks(t.TempDir())
	kept := NewMemory(0, 0)
	env := append(slices.Clone(environment), "A="+strings.Repeat("x", 100_000))
	argv := []string{"sh", "-c", `echo "$0|$1|$2|${#A}|$(pwd)|$(ulimit -c)|$(cut -d' ' -f6 /proc/self/stat)-$$"
		grep -E '^Sig(Blk|Ign)' /proc/$$/status | tr -d '\t'; tr '\0' ' ' </proc/$$/environ | cut -c-20`, "zero", "", "two words"}
	got := outputAgain(t, n, Setsid(), Rlimit(unix.RLIMIT_CORE, 0, 0), Chdir(dir), Try(System("nonsense", 1<<20)),
		Call("pid", unix.SYS_GETPID).Keep(kept, 0), Call("group", unix.SYS_GETPGID, kept.Word(0)).Keep(kept, 1),
		SameWord("none", kept, 12, 0), NoNewPrivs(), Seccomp(refuse(unix.SYS_MKDIRAT)), Execve("/bin/sh", argv, env))
	none := strings.Repeat("0", 16)
	var pid, session int
	first, rest, _ := strings.Cut(got, "\n")
	at := strings.LastIndex(first, "|")
	if _, err := fmt.Sscanf(first[at:], "|%d-%d", &session, &pid); err != nil || session != pid ||
		first[:at] != "zero||two words|100000|"+dir+"|0" {
		t.Error(first)
	}
	if want := "SigBlk:" + none + "\nSigIgn:" + none + "\n"; !strings.HasPrefix(rest, want) || !strings.HasSuffix(rest, environment[0][:20]) {
		t.Errorf("%q instead of %q", rest, want)
	}
	if got := outputAgain(t, n, NoNewPrivs(), Seccomp(refuse(mkdir)), Seccomp(refuse(unix.SYS_MKDIRAT)), shell("mkdir "+dir+"/new || true")); !strings.Contains(got, "not permitted") {
		t.Error(got)
	}
}

func TestAFailingStepOfASecondExecutionNamesItself(t *testing.T) {
	n := refused(t)
	missing := filepath.Join(t.TempDir(), "missing")
	startAgain(t, n, noLimit(), shell("exit 0"))
	_, _ = syscall.Wait4(-1, nil, syscall.WALL, nil)
	before := descriptors(t)
	for _, test := range []struct {
		steps []Step
		want  Error
	}{
		{[]Step{noLimit(), Chdir(missing), shell("")}, Error{"chdir", 1, unix.ENOENT}},
		{[]Step{NoNewPrivs(), Landlock(-1, 0), shell("")}, Error{"landlock", 1, unix.EBADF}},
		{[]Step{noLimit(), Execve(missing, []string{"x"}, nil)}, Error{"execve", 1, unix.ENOENT}},
		{slices.Concat([]Step{noLimit()}, Files([]int{1 << 30}), []Step{shell("")}), Error{"dup 1073741824 0 0", 1, unix.EBADF}},
		{[]Step{noLimit(), Seccomp(make([]unix.SockFilter, 1)), shell("")}, Error{"seccomp", 1, unix.EINVAL}},
		{[]Step{System("die", unix.SYS_EXIT_GROUP, 3), shell("")}, Error{"die", 0, 0}},
		{[]Step{System("parent", unix.SYS_GETPPID).MustBe(1 << 40), shell("")}, Error{"parent", 0, unix.ESRCH}},
	} {
		_, _, err := startAgain(t, n, test.steps...)
		if failed, ok := errors.AsType[*Error](err); !ok || *failed != test.want {
			t.Errorf("%v instead of %v", err, &test.want)
		}
	}
	if after := descriptors(t); !slices.Equal(before, after) {
		t.Errorf("descriptors %v have become %v", before, after)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WALL|syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("process %d is left, %v", pid, err)
	}
}

func TestTenSecondExecutionsLeaveNothing(t *testing.T) {
	n := refused(t)
	outputAgain(t, n, shell("true"))
	before := descriptors(t)
	for range 10 {
		outputAgain(t, n, shell("true"))
	}
	if after := descriptors(t); !slices.Equal(before, after) {
		t.Errorf("descriptors %v have become %v", before, after)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WALL|syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("process %d is left, %v", pid, err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || strings.Contains(string(maps), Again) {
		t.Errorf("memory is left, %v", err)
	}
}

// The descriptors that a second execution is given stay close-on-exec, and no others come along.
func TestASecondExecutionHandsNothingOn(t *testing.T) {
	n := refused(t)
	var used, other [2]int
	for _, pipe := range []*[2]int{&used, &other} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pipe[0])
		defer unix.Close(pipe[1])
	}
	var lists [2]string
	for i, start := range []func(steps ...Step) (int, int, error){
		func(steps ...Step) (int, int, error) { return Start(steps) },
		func(steps ...Step) (int, int, error) { return startAgain(t, n, steps...) },
	} {
		list := filepath.Join(t.TempDir(), "list")
		pid, pidfd, err := start(Join(used[1]), shell("ls /proc/$$/fd >"+list))
		if err != nil {
			t.Fatal(err)
		}
		if status := reap(t, pid, pidfd); status != 0 {
			t.Errorf("status %#x", status)
		}
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		lists[i] = string(text)
	}
	if lists[0] != lists[1] {
		t.Errorf("%q instead of %q", lists[1], lists[0])
	}
	if _, err := unix.Read(used[0], make([]byte, 8)); err != nil {
		t.Error(err)
	}
}

func TestWithoutLeaveNothingIsExecutedAgain(t *testing.T) {
	n := refused(t)
	mayExecuteAgain.Store(false)
	var err error
	n.do(func() { _, _, err = Start([]Step{noLimit(), shell("")}) })
	if failed, ok := errors.AsType[*Error](err); !ok || *failed != (Error{"keep capabilities", 0, unix.ENOSYS}) {
		t.Error(err)
	}
}

// Without a sealed script of ours this program stops: it runs neither main nor anything else.
func TestOnlyAScriptOfOursIsPerformed(t *testing.T) {
	forged := func(seals int, words ...uint64) int {
		var fd int
		var err error
		if seals == 1 {
			fd, err = sealed(words)
		} else {
			fd, err = unix.MemfdCreate("forged", unix.MFD_ALLOW_SEALING)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	for why, argv := range map[string][]string{
		"there is no script": {Again}, "not sealed": {Again, fmt.Sprint(forged(0))},
		"empty": {Again, fmt.Sprint(forged(1, 1))}, "not one of ours": {Again, fmt.Sprint(forged(1, make([]uint64, scriptWords)...))},
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		files := make([]uintptr, 64)
		for i := range files {
			files[i] = ^uintptr(0)
			if _, err := unix.FcntlInt(uintptr(i), unix.F_GETFD, 0); err == nil {
				files[i] = uintptr(i)
			}
		}
		files[2] = write.Fd()
		pid, err := syscall.ForkExec("/proc/self/exe", argv, &syscall.ProcAttr{Env: syscall.Environ(), Files: files})
		_ = write.Close()
		if err != nil {
			t.Fatal(err)
		}
		runtime.KeepAlive(write)
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 127 {
			t.Errorf("%s: %v, status %#x", why, err, status)
		}
		words := make([]byte, 1000)
		size, _ := read.Read(words)
		_ = read.Close()
		if !strings.Contains(string(words[:size]), why) {
			t.Errorf("%q instead of %q", words[:size], why)
		}
	}
}
