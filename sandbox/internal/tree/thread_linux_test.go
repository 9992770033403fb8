package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// onAnotherThread calls do on a thread that is not the first of the process, and ends it.
func onAnotherThread(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			do()
			return
		}
		defer runtime.UnlockOSThread()
		onAnotherThread(do)
	}()
	<-done
}

func TestEachThreadHasItsOwnList(t *testing.T) {
	if !procs.HasChildrenFiles() {
		t.Skip("the kernel has no lists of children")
	}
	onAnotherThread(func() {
		command := exec.Command("sleep", "1000")
		if err := command.Start(); err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
		lists := func(thread int) bool {
			pids, err := newChildList(thread).list()
			if err != nil {
				t.Error(err)
			}
			return slices.Contains(pids, command.Process.Pid)
		}
		if !lists(unix.Gettid()) {
			t.Error("a child is not listed")
		}
		if lists(os.Getpid()) {
			t.Error("a child of another thread is listed with those of the first")
		}
	})
}

func TestAChildOfAnyThreadIsFound(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))  // one is kept by the thread that forks until it has the child's program
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would wait for that thread, and this test with it
	runtime.GC()
	folder := t.TempDir()
	program := filepath.Join(folder, "script")
	interpreter := filepath.Join(folder, "interpreter")
	text, err := os.ReadFile("/bin/sh")
	if err == nil {
		err = os.WriteFile(interpreter, text, 0o755)
	}
	if err == nil {
		err = os.WriteFile(program, []byte("#!"+interpreter+"\n"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	lease, err := os.Open(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	if _, err := unix.FcntlInt(lease.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases here: %v", err)
	}
	born := make(chan struct{})
	go onAnotherThread(func() {
		defer close(born)
		pid, err := syscall.ForkExec(program, []string{"script"}, &syscall.ProcAttr{})
		if err == nil {
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
	})
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if child, found := procs.FindUnexecuted(os.Getpid()); found {
			_ = child.Kill()
			break
		}
		if time.Now().After(late) {
			_ = lease.Close()
			t.Error("it was not found")
			break
		}
	}
	<-born
}
