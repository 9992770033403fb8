package birth

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/leasetest"
)

const patience = time.Minute

var environment = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}

// shell makes the last step.
func shell(script string) Step {
	return Execve("/bin/sh", []string{"sh", "-c", script}, environment)
}

// reap waits for the end of a process and returns how it ended.
func reap(t *testing.T, pid, pidfd int) syscall.WaitStatus {
	t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WALL, nil)
		if err == nil {
			break
		}
		if err != syscall.EINTR {
			t.Fatal(err)
		}
	}
	if err := unix.Close(pidfd); err != nil {
		t.Error(err)
	}
	return status
}

// output runs a launch to its end with a pipe for standard output and error.
func output(t *testing.T, steps ...Step) string {
	t.Helper()
	return outputOf(t, Start, steps...)
}

func outputOf(t *testing.T, start func([]Step) (pid, pidfd int, err error), steps ...Step) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	out := int(write.Fd())
	last := len(steps) - 1
	pid, pidfd, err := start(slices.Concat(steps[:last:last], Files([]int{-1, out, out}), steps[last:]))
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

// descriptors lists the descriptors of this process.
func descriptors(t *testing.T) []string {
	t.Helper()
	folder, err := os.Open("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestAProgramIsExecuted(t *testing.T) {
	pid, pidfd, err := Start([]Step{Setsid(), shell("exit 7")})
	if err != nil {
		t.Fatal(err)
	}
	if status := reap(t, pid, pidfd); status.ExitStatus() != 7 {
		t.Errorf("status %#x", status)
	}
}

func TestArgumentsEnvironmentAndDirectoryArrive(t *testing.T) {
	dir := t.TempDir()
	env := append(slices.Clone(environment), "A="+strings.Repeat("x", 10_000), "B=")
	for i := range 1000 {
		env = append(env, "V"+strconv.Itoa(i)+"=1")
	}
	argv := []string{"sh", "-c", `echo "$0|$1|$2|${#A}|${B-unset}|$V999|$(pwd -P)"`, "zero", "", "two words"}
	want, _ := filepath.EvalSymlinks(dir)
	if got := output(t, Chdir(dir), Execve("/bin/sh", argv, env)); got != "zero||two words|10000||1|"+want {
		t.Error(got)
	}
}

func TestAFailingStepNamesItself(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	before := descriptors(t)
	for _, test := range []struct {
		steps []Step
		want  Error
	}{
		{[]Step{Setsid(), Chdir(missing), shell("")}, Error{"chdir", 1, unix.ENOENT}},
		{[]Step{Setsid(), Setsid(), shell("")}, Error{"setsid", 1, unix.EPERM}},
		{[]Step{Fchdir(-1), shell("")}, Error{"fchdir", 0, unix.EBADF}},
		{[]Step{Setsid(), Execve(missing, []string{"x"}, nil)}, Error{"execve", 1, unix.ENOENT}},
		{[]Step{Execve(t.TempDir(), []string{"x"}, nil)}, Error{"execve", 0, unix.EACCES}},
		{slices.Concat(Files([]int{1 << 30}), []Step{shell("")}), Error{"dup 1073741824 0 0", 0, unix.EBADF}},
		{[]Step{Setsid()}, Error{"exit", 0, 0}},
		{nil, Error{"execve", 0, unix.EINVAL}},
	} {
		pid, pidfd, err := Start(test.steps)
		failed, ok := errors.AsType[*Error](err)
		if !ok || *failed != test.want || pid != 0 || pidfd != -1 {
			t.Errorf("%v instead of %v", err, &test.want)
		}
		if errno, ok := errors.AsType[syscall.Errno](err); ok != (test.want.Errno != 0) || errno != test.want.Errno {
			t.Errorf("errno %v of %v", errno, err)
		}
	}
	if after := descriptors(t); !slices.Equal(before, after) {
		t.Errorf("descriptors %v have become %v", before, after)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WALL|syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("child %d is left: %v", pid, err)
	}
}

func TestAParentThatIsGoneIsNoticed(t *testing.T) {
	steps := DeathSignal(syscall.SIGKILL)
	if got := output(t, append(steps, shell("echo lives"))...); got != "lives" {
		t.Error(got)
	}
	steps = DeathSignal(syscall.SIGKILL)
	steps[1].call.want++
	_, _, err := Start(append(steps, shell("")))
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Index != 1 || failed.Errno != unix.ESRCH {
		t.Error(err)
	}
}

func TestTheDeathSignalIsAboutTheThread(t *testing.T) {
	born, over := make(chan [2]int), make(chan struct{})
	var begin func()
	begin = func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, unless it is the first one
		if unix.Gettid() == unix.Getpid() {
			go begin()
			<-over
			return
		}
		pid, pidfd, err := Start(append(DeathSignal(syscall.SIGTERM), Execve("/bin/sleep", []string{"sleep", "1000"}, environment)))
		if err != nil {
			t.Error(err)
		}
		born <- [2]int{pid, pidfd}
	}
	go begin()
	child := <-born
	close(over)
	if child[0] == 0 {
		return
	}
	if status := reap(t, child[0], child[1]); status.Signal() != syscall.SIGTERM {
		t.Errorf("status %#x", status)
	}
}

func TestSignalsAreAsForANewProcess(t *testing.T) {
	signal.Ignore(syscall.SIGUSR1)
	defer signal.Reset(syscall.SIGUSR1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	blocked := unix.Sigset_t{Val: [16]uint64{1<<(unix.SIGUSR2-1) | 1<<(unix.SIGHUP-1)}}
	var before, after unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before); err != nil {
		t.Fatal(err)
	}
	got := output(t, shell("grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'"))
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &before, &after); err != nil {
		t.Fatal(err)
	}
	if got != "SigBlk:0000000000000000\nSigIgn:0000000000000000" {
		t.Error(got)
	}
	if after.Val[0] != before.Val[0]|blocked.Val[0] {
		t.Errorf("this thread's own mask has become %x", after.Val[0])
	}
}

func TestNothingElseIsInherited(t *testing.T) {
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	leak, err := unix.Dup(int(file.Fd())) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	list := []string{"sh", "-c", `for fd in /proc/$$/fd/*; do echo -n "${fd##*/} "; done`}
	listing := Execve("/bin/sh", list, environment)
	if !closesRanges() {
		t.Skip("no close_range here")
	}
	if got := output(t, listing); got != "0 1 2" { // 0 is the directory that it lists
		t.Errorf("descriptors %s", got)
	}
	ranges, above := closesRanges, aboveLeaks
	defer func() { closesRanges, aboveLeaks = ranges, above }()
	for _, end := range []int{3, leak, leak + 1, leak + 100} {
		aboveLeaks = func() int { return end }
		for _, can := range []bool{true, false} {
			closesRanges = func() bool { return can }
			for way, start := range map[string]func([]Step) (int, int, error){"clone": Start, "ForkExec": forkExec} {
				got := outputOf(t, start, listing)
				wants := end <= leak && (way == "ForkExec" || !can)
				if leaks := slices.Contains(strings.Fields(got), strconv.Itoa(leak)); leaks != wants {
					t.Errorf("%s, close_range %t, leaks below %d: descriptor %d is among %s: %t", way, can, end, leak, got, leaks)
				}
			}
		}
	}
	if got := output(t, CloseRange(uint(leak), uint(leak)), listing); slices.Contains(strings.Fields(got), strconv.Itoa(leak)) {
		t.Errorf("descriptor %d is among %s", leak, got)
	}
}

func TestAChildThatHangsHoldsNoDescriptorOfOthers(t *testing.T) {
	if !closesRanges() {
		t.Skip("no close_range here")
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	program, _ := leasetest.Leased(t, "/bin/true")
	n, done := begin(t, "execve", append(Files(nil), Execve(program, []string{"true"}, nil))...)
	_ = write.Close()
	_ = read.SetReadDeadline(time.Now().Add(patience))
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the pipe's end: %v", err)
	}
	_ = n.Kill()
	_ = receive(t, done)
	n.Reap()
	_ = unix.Close(n.PIDFD)
}

func TestLimitsAreTheChildsAlone(t *testing.T) {
	var before, after unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &before)
	if got := output(t, Rlimit(unix.RLIMIT_CORE, 0, 0), Rlimit(unix.RLIMIT_NOFILE, 33, 44),
		shell("ulimit -Hc; ulimit -Sn; ulimit -Hn")); got != "0\n33\n44" {
		t.Error(got)
	}
	if _ = unix.Getrlimit(unix.RLIMIT_CORE, &after); before != after {
		t.Errorf("this process's limit %v has become %v", before, after)
	}
}

func TestATerminalIsTheSessions(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(slave.Fd())
	pid, pidfd, err := Start(slices.Concat([]Step{Setsid()}, Files([]int{fd, fd, fd}),
		[]Step{ControllingTTY(0), shell("echo to the terminal >/dev/tty")}))
	_ = slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 100)
	n, _ := master.Read(text)
	if status := reap(t, pid, pidfd); status != 0 || !bytes.HasPrefix(text[:n], []byte("to the terminal")) {
		t.Errorf("status %#x, %q", status, text[:n])
	}
}

func TestForkExecMakesWhatItCan(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	out := int(write.Fd())
	pid, pidfd, err := forkExec(slices.Concat([]Step{Setsid(), Chdir("/")}, DeathSignal(syscall.SIGKILL),
		Files([]int{-1, out, -1}), []Step{shell("pwd; exit 3")}))
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(read)
	if status := reap(t, pid, pidfd); status.ExitStatus() != 3 || string(text) != "/\n" {
		t.Errorf("status %#x, %q", status, text)
	}
	_, _, err = forkExec([]Step{Setsid(), NoNewPrivs(), shell("")})
	if failed, ok := errors.AsType[*Error](err); !ok || *failed != (Error{"no_new_privs", 1, unix.ENOSYS}) {
		t.Error(err)
	}
	_, _, err = forkExec([]Step{Execve("/missing", []string{"x"}, nil)})
	if failed, ok := errors.AsType[*Error](err); !ok || *failed != (Error{"", -1, unix.ENOENT}) || err.Error() != unix.ENOENT.Error() {
		t.Error(err)
	}
}
