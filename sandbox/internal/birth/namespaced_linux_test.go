package birth

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mapped returns steps that make this process's user visible in a user namespace.
func mapped() (steps []Step) {
	uid, gid := os.Geteuid(), os.Getegid()
	for _, file := range []struct{ name, text string }{
		{"setgroups", "deny"}, {"uid_map", fmt.Sprintf("%d %d 1\n", uid, uid)}, {"gid_map", fmt.Sprintf("%d %d 1\n", gid, gid)},
	} {
		fd := NewMemory(0)
		steps = append(steps,
			Call("open "+file.name, unix.SYS_OPENAT, Number(unix.AT_FDCWD), Text("/proc/self/"+file.name), Number(unix.O_WRONLY|unix.O_CLOEXEC)).Keep(fd, 0),
			Call("write "+file.name, unix.SYS_WRITE, fd.Word(0), Text(file.text), Number(len(file.text))))
	}
	return steps
}

// namespaced starts a launch in namespaces that writes to a pipe. It returns the ends for its output and its reports.
func namespaced(t *testing.T, f Namespaced) (n *Child, output, reports *os.File, err error) {
	t.Helper()
	output, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reports, report, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f.Namespaces |= unix.CLONE_NEWUSER
	f.First = slices.Concat(mapped(), Files([]int{-1, int(out.Fd()), int(out.Fd()), int(report.Fd())}),
		[]Step{System("close on exec", unix.SYS_FCNTL, 3, unix.F_SETFD, unix.FD_CLOEXEC)}, f.First)
	f.Report = 3
	n, err = BeginNamespaced(f)
	_, _ = out.Close(), report.Close()
	t.Cleanup(func() { _, _ = output.Close(), reports.Close() })
	return n, output, reports, err
}

func everything(t *testing.T, from io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(from)
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(text))
}

func TestACommandStartsInNamespaces(t *testing.T) {
	needNamespaces(t)
	n, output, reports, err := namespaced(t, Namespaced{Command: []Step{Setsid(), shell("echo $$ $(id -u); (sleep 0.1; echo late) & exit 7")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Wait(); err != nil {
		t.Fatal(err)
	}
	n.Release()
	var record Record
	if err := binary.Read(reports, binary.NativeEndian, &record); err != nil {
		t.Fatal(err)
	}
	if status := syscall.WaitStatus(record.Status); record.PID != commandPID || status.ExitStatus() != 7 {
		t.Errorf("%+v", record)
	}
	if got, want := everything(t, output), fmt.Sprintf("2 %d\nlate", os.Getuid()); got != want {
		t.Error(got)
	}
	if got := everything(t, reports); got != "" {
		t.Errorf("another report: %q", got)
	}
	if status := reap(t, n.PID, n.PIDFD); status.ExitStatus() != 253 {
		t.Errorf("the first process has ended with %#x", status)
	}
}

func TestANamespacedFailingStepNamesItself(t *testing.T) {
	needNamespaces(t)
	before := descriptors(t)
	for _, test := range []struct {
		launch Namespaced
		step   string
		errno  unix.Errno
	}{
		{Namespaced{Join: []Step{Fchdir(-1)}, Command: []Step{shell("")}}, "fchdir", unix.EBADF},
		{Namespaced{Namespaces: unix.CLONE_FS, Command: []Step{shell("")}}, "clone user pid namespaces", unix.EINVAL},
		{Namespaced{First: []Step{Fchdir(-1)}, Command: []Step{shell("")}}, "fchdir", unix.EBADF},
		{Namespaced{Command: []Step{Setsid(), Setsid(), shell("")}}, "setsid", unix.EPERM},
		{Namespaced{Command: []Step{Execve("/missing", nil, nil)}}, "execve", unix.ENOENT},
	} {
		n, _, _, err := namespaced(t, test.launch)
		if err == nil {
			err = n.Wait()
			n.Release()
			reap(t, n.PID, n.PIDFD)
		}
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Step != test.step || failed.Errno != test.errno {
			t.Errorf("%v instead of %s: %v", err, test.step, test.errno)
		}
	}
	if after := descriptors(t); len(after) > len(before)+2*2*5 { // the pipes are closed when the test ends
		t.Errorf("descriptors %v have become %v", before, after)
	}
}

func needNamespaces(t *testing.T) {
	t.Helper()
	n, _, _, err := namespaced(t, Namespaced{Command: []Step{shell("")}})
	if err == nil {
		err = n.Wait()
		n.Release()
		reap(t, n.PID, n.PIDFD)
	}
	if err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
}

func TestTheFirstProcessGivesItsMemoryBack(t *testing.T) {
	needNamespaces(t)
	n, output, _, err := namespaced(t, Namespaced{Command: []Step{shell("echo ready; read x < /dev/null; exec sleep 1000")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Wait(); err != nil {
		t.Fatal(err)
	}
	n.Release()
	var ready [5]byte
	if _, err := io.ReadFull(output, ready[:]); err != nil {
		t.Fatal(err)
	}
	kib := func() (private int) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", n.PID))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var value int
			if name, rest, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "Private_") {
				_, _ = fmt.Sscan(rest, &value)
				private += value
			}
		}
		return private
	}
	for range 1000 {
		if kib() <= 16 {
			break
		}
	}
	if got := kib(); got > 16 {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", n.PID))
		t.Errorf("%d KiB\n%s", got, text)
	}
	if err := n.Kill(); err != nil {
		t.Error(err)
	}
	reap(t, n.PID, n.PIDFD)
}

func BenchmarkNamespaced(b *testing.B) {
	for b.Loop() {
		f := Namespaced{Namespaces: unix.CLONE_NEWUSER, First: mapped(), Command: []Step{Execve("/bin/true", []string{"true"}, nil)}}
		f.First = append(f.First, Files([]int{-1, -1, 2})...)
		n, err := BeginNamespaced(f)
		if err == nil {
			err = n.Wait()
		}
		if err != nil {
			b.Fatal(err)
		}
		n.Release()
		n.Reap()
		_ = unix.Close(n.PIDFD)
	}
}
