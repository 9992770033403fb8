package inspect

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// cat starts a program that reads a pipe, which is closed when the test ends.
func cat(t *testing.T) (pid int, file ptyio.InputFile) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	command := exec.Command("cat")
	command.Stdin = read
	if err := command.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = write.Close()
		_ = command.Wait()
	})
	var stat unix.Stat_t
	if err := unix.Fstat(int(read.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid, ptyio.InputFile{FileSystem: uint64(stat.Dev), Inode: stat.Ino}
}

// eventually calls do until it returns true.
func eventually(t *testing.T, do func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !do(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it does not happen")
		}
	}
}

func TestAReaderThatIsStoppedDoesNotWait(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	pid, file := cat(t)
	var reader *ptyio.Reader
	r := Readers{Tree: Tree{Leader: pid}}
	eventually(t, func() bool {
		found, err := r.Look(file)
		if err != nil {
			t.Skip("skipped: ", err)
		}
		reader = found
		return found != nil && !found.Guess
	})
	if !reader.Still() {
		t.Error("it does not sleep any more")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		p, err := procs.Read(pid)
		return err == nil && p.Stopped()
	})
	if reader.Still() {
		t.Error("one that is stopped is said to wait")
	}
}

// A daemon may have begun to listen before it is known to be of the tree.
func TestAMemberThatIsFoundLateListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	defer listener.Close()
	pid, _ := cat(t)
	looks := 0
	l := Listeners{Tree: Tree{Leader: pid, Parent: os.Getpid(), Orphans: func() []int {
		if looks < 20 {
			return nil
		}
		return []int{os.Getpid()}
	}}}
	eventually(t, func() bool {
		looks++
		found, err := l.Look()
		if err != nil {
			t.Skip("skipped: ", err)
		}
		for _, f := range found {
			if f.Address.String() == listener.Addr().String() && f.PID == os.Getpid() {
				if looks < 20 {
					t.Error("it was found where it was not looked for")
				}
				return true
			}
		}
		return false
	})
}

// pipe makes a pipe that nobody reads.
func pipe(t *testing.T) ptyio.InputFile {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close(); _ = write.Close() })
	var stat unix.Stat_t
	if err := unix.Fstat(int(read.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return ptyio.InputFile{FileSystem: uint64(stat.Dev), Inode: stat.Ino}
}

func TestWhoSleepsIsLookedAtAgainWhenItHasRun(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	if _, err := counts("/proc/self/schedstat"); err != nil {
		t.Skip("skipped: the system does not count how often a thread has run: ", err)
	}
	pid, file := cat(t)
	other := pipe(t)
	r := Readers{Tree: Tree{Leader: pid}}
	remembers := func() bool {
		if reader, err := r.Look(other); err != nil || reader != nil {
			t.Fatal(reader, err)
		}
		return r.unchanged()
	}
	eventually(t, remembers)
	if reader, err := r.Look(file); err != nil || reader == nil {
		t.Errorf("%v, %v: it reads another file", reader, err)
	}
	eventually(t, remembers)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !r.unchanged() })
	for range 5 {
		if remembers() {
			t.Error("one that is stopped is remembered as one that sleeps: it would not be seen to go on")
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, remembers)
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Skip("skipped: ", err)
	}
	if !r.unchanged() {
		t.Error("what another process does counts")
	}
}

// A tree with an orphan that is found late is looked at again, though none of those that are known has run.
func TestAnOrphanThatIsFoundLateReads(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	pid, _ := cat(t)
	orphan, file := cat(t)
	var orphans []int
	r := Readers{Tree: Tree{Leader: pid, Parent: os.Getpid(), Orphans: func() []int { return orphans }}}
	eventually(t, func() bool {
		if reader, err := r.Look(file); err != nil || reader != nil {
			t.Fatal(reader, err)
		}
		_, err := counts("/proc/self/schedstat")
		return err != nil || r.unchanged()
	})
	orphans = []int{orphan}
	eventually(t, func() bool {
		reader, err := r.Look(file)
		return err == nil && reader != nil && reader.PID == orphan
	})
}
