package tree

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
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

func TestAnIsolatedLeaderRunsWhileProcess1WaitsForIt(t *testing.T) {
	first := exec.Command("sh", "-c", "while :; do :; done & echo begun; wait")
	output, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-first.Process.Pid, syscall.SIGKILL); _ = first.Wait() }()
	if _, err := output.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	alone, isolated := &Tree{child: &birth.Child{PID: first.Process.Pid}}, &Tree{child: &birth.Child{PID: first.Process.Pid}, isolated: &isolated{}}
	for late := time.Now().Add(patience); alone.Runs(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the shell does not wait")
		}
	}
	if !isolated.Runs() {
		t.Error("what it waits for does not count")
	}
}
