package birth

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuse makes a filter that lets one call fail with EPERM and allows every other. It is for tests, so it does not look at
// the architecture.
func refuse(call uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
}

// status reads a field of this thread.
func status(t *testing.T, field string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+field+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// onOneThread makes sure that the test looks at the thread that gave birth.
func onOneThread(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

func TestSeccompConfinesTheChildAlone(t *testing.T) {
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0,
		uintptr(unsafe.Pointer(&[]uint32{unix.SECCOMP_RET_ERRNO}[0]))); errno != 0 {
		t.Skipf("no seccomp here: %v", errno)
	}
	onOneThread(t)
	before := status(t, "Seccomp") + status(t, "NoNewPrivs")
	dir := t.TempDir()
	got := output(t, Chdir(dir), NoNewPrivs(), Seccomp(refuse(unix.SYS_MKDIRAT)), Seccomp(refuse(mkdir)),
		shell("mkdir new; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status"))
	if !strings.Contains(got, "Operation not permitted") || !strings.HasSuffix(got, "NoNewPrivs:\t1\nSeccomp:\t2") {
		t.Error(got)
	}
	if err := os.Mkdir(filepath.Join(dir, "ours"), 0o755); err != nil {
		t.Error(err)
	}
	if after := status(t, "Seccomp") + status(t, "NoNewPrivs"); after != before {
		t.Errorf("this thread's own have become %s", after)
	}
	_, _, err := Start([]Step{Seccomp(make([]unix.SockFilter, 1)), shell("")})
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Step != "seccomp" {
		t.Error(err)
	}
}

func TestLandlockConfinesTheChildAlone(t *testing.T) {
	const makeDirectories = unix.LANDLOCK_ACCESS_FS_MAKE_DIR
	handled := uint64(makeDirectories)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno != 0 {
		t.Skipf("no Landlock here: %v", errno)
	}
	defer unix.Close(int(fd))
	onOneThread(t)
	dir := t.TempDir()
	got := output(t, Chdir(dir), NoNewPrivs(), Landlock(int(fd), 0), shell("mkdir new; touch file && echo a file"))
	if !strings.Contains(got, "Permission denied") || !strings.HasSuffix(got, "a file") {
		t.Error(got)
	}
	if err := os.Mkdir(filepath.Join(dir, "ours"), 0o755); err != nil {
		t.Error(err)
	}
	_, _, err := Start([]Step{NoNewPrivs(), Landlock(-1, 0), shell("")})
	if failed, ok := errors.AsType[*Error](err); !ok || *failed != (Error{"landlock", 1, unix.EBADF}) {
		t.Error(err)
	}
}

func TestCapabilitiesAreDroppedByTheChildAlone(t *testing.T) {
	onOneThread(t)
	before := status(t, "CapEff") + status(t, "CapBnd")
	if os.Geteuid() != 0 {
		_, _, err := Start(append(DropBounding(0), shell("")))
		if failed, ok := errors.AsType[*Error](err); !ok || *failed != (Error{"drop capability 0", 0, unix.EPERM}) {
			t.Error(err)
		}
		t.Skip("the rest needs root")
	}
	const chown = 1 << unix.CAP_CHOWN
	const needed = chown | 1<<unix.CAP_SETPCAP
	got := output(t, slices.Concat([]Step{SetCapabilities(Capabilities{Permitted: needed, Effective: needed, Inheritable: chown}),
		Prctl("ambient", unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_CHOWN)}, DropBounding(chown),
		[]Step{SetCapabilities(Capabilities{Permitted: chown, Effective: chown}), NoNewPrivs(), shell("grep -E '^Cap' /proc/self/status | tr -d '\\t'")})...)
	want := "CapInh:0000000000000000\nCapPrm:0000000000000001\nCapEff:0000000000000001\nCapBnd:0000000000000001\nCapAmb:0000000000000000"
	if got != want {
		t.Error(got)
	}
	if after := status(t, "CapEff") + status(t, "CapBnd"); after != before {
		t.Errorf("this thread's own have become %s", after)
	}
}

func TestCredentialsAreTheChildsAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		_, _, err := Start(append(Credentials(12345, 23456, []uint32{1, 2, 3}), shell("")))
		if failed, ok := errors.AsType[*Error](err); !ok || *failed != (Error{"setgroups", 0, unix.EPERM}) {
			t.Error(err)
		}
		t.Skip("the rest needs root")
	}
	got := output(t, append(Credentials(12345, 23456, []uint32{1, 2, 3}),
		shell("grep -E '^(Uid|Gid|Groups)' /proc/self/status | tr '\\t' ' '"))...)
	if got != "Uid: 12345 12345 12345 12345\nGid: 23456 23456 23456 23456\nGroups: 1 2 3" {
		t.Error(got)
	}
	if os.Getuid() != 0 || os.Getgid() == 23456 {
		t.Error("this process is another user")
	}
}
