package birth

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// again runs this test in a process of its own, which a shell makes; inside says whether it is that one.
func again(t *testing.T, prepare string) (inside bool) {
	t.Helper()
	const variable = "EXECBUS_BIRTH_INSIDE"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/bin/sh", "-c", prepare+` exec "$0" "$@"`, program, "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), variable+"="+t.Name())
	text, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, text)
	}
	return false
}

func TestTheLimitOfOpenFilesIsTheOneBeforeGo(t *testing.T) {
	if !again(t, "ulimit -Sn 100; ulimit -Hn 200;") {
		return
	}
	var ours unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &ours); err != nil || ours.Cur <= 100 {
		t.Fatalf("Go has not raised it: %+v", ours)
	}
	const both = "ulimit -Sn; ulimit -Hn"
	if got := output(t, shell(both)); got != "100\n200" {
		t.Error(got)
	}
	if got := output(t, Rlimit(unix.RLIMIT_NOFILE, 77, 200), shell(both)); got != "77\n200" {
		t.Error(got)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 150, Max: 200}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, shell(both)); got != "150\n200" {
		t.Error(got)
	}
}

func TestABirthNeedsOneDescriptor(t *testing.T) {
	if !again(t, "ulimit -n 64;") {
		return
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fds := []int{int(read.Fd()), int(write.Fd()), int(write.Fd())}
	var full []int
	for {
		fd, err := unix.FcntlInt(write.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err == unix.EMFILE {
			break
		}
		full = append(full, fd)
	}
	steps := append(Files(fds), Execve("/bin/sh", []string{"sh", "-c", "echo here"}, environment))
	_, _, err = Start(steps)
	if failed, ok := errors.AsType[*Error](err); !ok || *failed != (Error{"clone", 0, unix.EMFILE}) {
		t.Error(err)
	}
	for _, fd := range full[1:] {
		defer unix.Close(fd)
	}
	_ = unix.Close(full[0])
	pid, pidfd, err := Start(steps)
	if err != nil {
		t.Fatal(err)
	}
	if status := reap(t, pid, pidfd); status != 0 {
		t.Errorf("status %#x", status)
	}
	text := make([]byte, 10)
	if n, _ := read.Read(text); string(text[:n]) != "here\n" {
		t.Errorf("%q", text[:n])
	}
}
