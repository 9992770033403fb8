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
	eventually(t, func() bool {
		found, err := Tree{Leader: pid}.Reader(file)
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
